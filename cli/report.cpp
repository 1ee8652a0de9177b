// `addnorm report`: the page of a run or a sweep.
#include "addnorm/report/report.h"

#include <memory>

#include "output.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

const Register verb(
    {.name = "report",
     .summary = "write report.html for a run or a sweep: one file, no network needed",
     .example = "addnorm report runs/demo",
     .order = 92,
     .setup = [](Arguments& arguments) -> Action {
       auto folder = std::make_shared<std::string>();
       arguments.positional("RUN", *folder, "folder of a run or of a sweep, finished or not");
       return [=](const Invocation&) {
         const auto& catalogue = formula::Catalogue::builtin();
         print_line(report::write_report(*folder, catalogue, version()).string());
         return 0;
       };
     }});

}  // namespace
}  // namespace addnorm::cli
