// CPU quotas that a container sets on us, read from the files of cgroup v2 and
// v1.
#pragma once

#include <filesystem>

namespace addnorm {

// Whole cores of the smallest quota on the way from our own group to the root
// (rounded down, at least 1: a thread that is paused half the time holds up all
// others at every barrier); 0 where no quota is set. `membership` is
// /proc/self/cgroup, `root` is /sys/fs/cgroup. Unreadable or malformed files
// count as "no quota".
int cgroup_quota(const std::filesystem::path& membership, const std::filesystem::path& root);

}  // namespace addnorm
