// report.html: one file that holds data, charts and their library, opens without a network, and says at
// the top what was asked and what came out.
#pragma once

#include <filesystem>
#include <string>

#include "addnorm/formula/catalogue.h"

namespace addnorm::report {

// Writes FOLDER/report.html for the folder of a run or of a sweep, finished or not, and returns its
// path. Throws Error for a folder that is neither.
std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const formula::Catalogue& catalogue, const std::string& version);

// The data of the page as JSON: what web/report.js draws. Values that are not finite are null.
std::string report_data(const std::filesystem::path& folder, const formula::Catalogue& catalogue,
                        const std::string& version);

// The page around such data.
std::string page(const std::string& title, const std::string& json);

}  // namespace addnorm::report
