// addnorm spec: a commented default specification, or the documentation of its keys.
#include <memory>

#include "addnorm/model/specification.h"
#include "output.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

const Register verb({.name = "spec",
                     .summary = "a commented default specification",
                     .example = "addnorm spec > my.toml",
                     .order = 90,
                     .setup = [](Arguments& arguments) -> Action {
                       auto docs = std::make_shared<bool>(false);
                       arguments.flag("--docs", *docs, "the page docs/specification.md instead");
                       return [docs](const Invocation&) {
                         print(*docs ? model::documentation() : model::commented_default());
                         return 0;
                       };
                     }});

}  // namespace
}  // namespace addnorm::cli
