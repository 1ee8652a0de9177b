#include "addnorm/base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "addnorm/base/text.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;

int whole_cores(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return static_cast<int>(std::clamp(quota / period, 1.0, 1e6));
}

// cgroup v2: "QUOTA PERIOD" or "max PERIOD".
int read_v2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period ? whole_cores(quota, period) : 0;
}

// cgroup v1: two files, a quota of -1 means none.
int read_v1(const fs::path& folder) {
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  return quota_file >> quota && period_file >> period ? whole_cores(quota, period) : 0;
}

// The smallest quota from `root/group` up to `root`. A container may not see
// the folder of its own group, only the root: missing folders are passed over.
template <typename Read>
int smallest(const fs::path& root, fs::path group, Read read) {
  int least = 0;
  while (true) {
    const int cores = read(group.empty() ? root : root / group);
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
    if (group.empty()) return least;
    group = group.parent_path();
  }
}

}  // namespace

int cgroup_quota(const fs::path& membership, const fs::path& root) {
  std::ifstream file(membership);
  std::string line;
  int least = 0;
  const auto keep = [&](int cores) {
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
  };
  while (std::getline(file, line)) {  // HIERARCHY:CONTROLLERS:/GROUP
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = fs::path(trim(line.substr(second + 1))).relative_path();
    if (controllers.empty()) {
      keep(smallest(root, group, read_v2));
    } else {
      const auto names = split(controllers, ',');
      if (std::find(names.begin(), names.end(), "cpu") == names.end()) continue;
      keep(smallest(root / controllers, group, read_v1));
      keep(smallest(root / "cpu", group, read_v1));
    }
  }
  return least;
}

}  // namespace addnorm
