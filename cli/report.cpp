// `addnorm report`: the page of a run or a sweep.
#include "addnorm/report/report.h"

#include <memory>

#include "addnorm/lab/run.h"
#include "output.h"
#include "specification.h"
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
       auto file = std::make_shared<std::string>();
       arguments.positional("RUN", *folder, "folder of a run or of a sweep, finished or not");
       arguments.catalogue(*file);
       return [=](const Invocation&) {
         const formula::Catalogue catalogue = chosen_catalogue(*file);
         if (lab::is_run(*folder)) {
           const lab::RunRecord run = lab::read_run(*folder, catalogue);
           for (const std::string& line : lab::changed_wirings(run.specification)) {
             log("warning [" + *folder + "] " + line);
           }
           if (run.metrics.absent) {
             log("warning [" + *folder +
                 "/metrics.jsonl] missing: put it back from a copy, the "
                 "page has no losses without it");
           }
         }
         print_line(report::write_report(*folder, catalogue, version()).string());
         return 0;
       };
     }});

}  // namespace
}  // namespace addnorm::cli
