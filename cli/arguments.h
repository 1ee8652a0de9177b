// What a verb takes on its command line. CLI11 stays behind this header, so that a verb's file
// compiles fast and every message has the same form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace addnorm::cli {

// The variables behind the references must live until the verb has run (a shared_ptr that the
// action holds, see cli/wirings.cpp); what they hold before is the default. A value that cannot be
// read is an Error that names the option.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // `name` is what the help calls it: "SPEC".
  void positional(const std::string& name, std::string& to, const std::string& help,
                  bool required = true);
  // `name` as typed: "--weights", or "-o,--out". `label` says in the help what the value is.
  void option(const std::string& name, std::string& to, const std::string& help,
              const std::string& label = "TEXT", bool required = false);
  void option(const std::string& name, int64_t& to, const std::string& help);
  void option(const std::string& name, double& to, const std::string& help);
  void option(const std::string& name, std::optional<int64_t>& to, const std::string& help);
  void option(const std::string& name, std::optional<double>& to, const std::string& help);
  // May be given several times; each time one value, taken as it is, commas included.
  void list(const std::string& name, std::vector<std::string>& to, const std::string& help,
            const std::string& label = "TEXT");
  void choice(const std::string& name, std::string& to, const std::vector<std::string>& choices,
              const std::string& help);
  void flag(const std::string& name, bool& to, const std::string& help);
  // --catalogue FILE, for chosen_catalogue().
  void catalogue(std::string& to);

 private:
  using Setter = std::function<void(const std::string&)>;
  void add(const std::string& name, const Setter& set, const std::string& help,
           const std::string& label, bool required);

  CLI::App& app_;
};

}  // namespace addnorm::cli
