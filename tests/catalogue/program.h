// Runs the program as a user does and returns what it wrote.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

struct Ran {
  int code = -1;
  std::string out;  // what the command's standard output held
};

// `arguments` as typed in a shell; "2>&1" in them adds the messages.
inline Ran run_program(const std::string& arguments) {
  Ran ran;
  FILE* pipe = popen((std::string("'") + ADDNORM_PROGRAM + "' " + arguments).c_str(), "r");
  if (pipe == nullptr) return ran;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}
