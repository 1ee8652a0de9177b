// Every rule of the tree holds in the tree, and complains about a text made to break it.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "addnorm/formula/catalogue.h"
#include "structure/rules.h"
#include "structure/source.h"

namespace structure {
namespace {

namespace formula = addnorm::formula;

const std::vector<std::string> code_endings = {".h", ".cpp"};

std::string report(const Complaints& complaints) {
  std::string text;
  for (const std::string& complaint : complaints) text += "\n" + complaint;
  return text;
}

template <typename Rule>
Complaints over(const std::vector<File>& files, Rule rule) {
  EXPECT_FALSE(files.empty());
  Complaints all;
  for (const File& file : files) {
    const Complaints some = rule(file);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<File> library() { return files_below(ADDNORM_SOURCE_DIR, "src", code_endings); }

std::vector<std::string> order() {
  return layer_order(read_text(fs::path(ADDNORM_SOURCE_DIR) / "CMakeLists.txt"));
}

TEST(SourceReader, SeparatesCodeCommentsAndLiterals) {
  const Code code = read_code(
      "int a = 50'257;  // \"no\"\nauto b = \"one\\\" two\"; char c = '\"'; /* \"x\n */\n"
      "auto d = R\"x(raw \"y\" )\" z)x\" \"end\";\n");
  ASSERT_EQ(code.literals.size(), 3u);
  EXPECT_EQ(code.literals[0].value, "one\\\" two");
  EXPECT_EQ(code.literals[0].line, 2);
  EXPECT_EQ(code.literals[1].value, "raw \"y\" )\" z");
  EXPECT_EQ(code.literals[1].line, 4);
  EXPECT_EQ(code.literals[2].value, "end");
  EXPECT_EQ(code.bare.find("no"), std::string::npos);
  EXPECT_NE(code.bare.find("int a = 50'257;"), std::string::npos);
  EXPECT_EQ(code.bare.find("raw"), std::string::npos);
}

TEST(Layers, OrderIsTheDesigns) {
  const std::vector<std::string> expected = {
      "base", "tensor", "formula",    "nodes",  "graph", "kernels",  "engine", "model",
      "text", "data",   "checkpoint", "theory", "train", "diagnose", "lab",    "report"};
  EXPECT_EQ(order(), expected);
}

TEST(Layers, FoldersIncludeOnlyEarlierOnes) {
  const auto layers = order();
  const Complaints found =
      over(library(), [&](const File& file) { return include_complaints(file, layers); });
  EXPECT_TRUE(found.empty()) << report(found);
}

TEST(Layers, AnIncludeOfALaterFolderIsRefused) {
  const File wrong{"src/addnorm/nodes/norm.h",
                   "#include \"addnorm/base/error.h\"\n#include \"addnorm/nodes/node.h\"\n"
                   "#include <addnorm/graph/graph.h>\n  #  include \"addnorm/train/loop.h\"\n"
                   "#include \"norm.h\"\n#include \"addnorm/nowhere/a.h\"\n#include <vector>\n"};
  const Complaints found = include_complaints(wrong, order());
  ASSERT_EQ(found.size(), 4u) << report(found);
  EXPECT_NE(found[0].find("norm.h:3: nodes/ includes the later layer graph/"), std::string::npos);
  EXPECT_NE(found[1].find("norm.h:4: nodes/ includes the later layer train/"), std::string::npos);
  EXPECT_NE(found[2].find("norm.h:5: expected addnorm/LAYER/FILE"), std::string::npos);
  EXPECT_NE(found[3].find("norm.h:6: no layer is called nowhere"), std::string::npos);
  EXPECT_EQ(include_complaints({"src/addnorm/other/a.h", ""}, order()).size(), 1u);
}

TEST(Output, NothingBelowTheProgramPrintsOrExits) {
  const Complaints found = over(library(), output_complaints);
  EXPECT_TRUE(found.empty()) << report(found);
}

TEST(Output, PrintingAndExitingAreRefused) {
  for (const std::string line : {"std::cout << 1;", "std::cerr<<x;", "fmt::print(\"a\");",
                                 "  printf(\"a\");", "std::exit(1);", "if (bad) exit (2);",
                                 "fprintf(stderr, \"a\");", "_exit(3);", "std::abort();"}) {
    EXPECT_EQ(output_complaints({"src/addnorm/base/a.cpp", line + "\n"}).size(), 1u) << line;
  }
  for (const std::string line :
       {"// std::cout << 1;", "log(\"printf(\");", "snprintf(buffer, 3, \"a\");",
        "formula::print(p);", "layer.exit(1);", "std::fprintf(file, \"a\");", "on_exit(f);"}) {
    EXPECT_TRUE(output_complaints({"src/addnorm/base/a.cpp", line + "\n"}).empty()) << line;
  }
}

// Catalogue names that the formula language has as well: a node may be told by them.
const std::set<std::string> language = {"attn",      "cross",   "ffn",       "f",     "norm",
                                        "layernorm", "rmsnorm", "l2norm",    "dyt",   "derf",
                                        "linear",    "param",   "scalenorm", "detach"};

TEST(CatalogueNames, NothingInTheLibraryKnowsOne) {
  std::set<std::string> names;
  for (const std::string& name : formula::Catalogue::builtin().names()) names.insert(name);
  EXPECT_GT(names.size(), 40u);
  const Complaints found =
      over(library(), [&](const File& file) { return name_complaints(file, names, language); });
  EXPECT_TRUE(found.empty()) << report(found);
}

TEST(CatalogueNames, ALiteralThatIsOneIsRefused) {
  const std::set<std::string> names = {"pre-ln", "dyt", "gpas/post"};
  const File wrong{
      "src/addnorm/train/loop.cpp",
      "if (wiring == \"pre-ln\") {}\n// \"pre-ln\"\nf(\"dyt\", \"gpas/post(base=2)\");\n"
      "help(\"try pre-ln\");\n"};
  const Complaints found = name_complaints(wrong, names, {"dyt"});
  ASSERT_EQ(found.size(), 2u) << report(found);
  EXPECT_NE(found[0].find("loop.cpp:1"), std::string::npos);
  EXPECT_NE(found[1].find("loop.cpp:3"), std::string::npos);
}

TEST(Files, AreShort) {
  Complaints found;
  for (const std::string folder : {"src", "cli", "tests", "bench", "examples", "tools", "cmake"}) {
    const auto files = files_below(ADDNORM_SOURCE_DIR, folder,
                                   {".h", ".cpp", ".py", ".sh", ".js", ".css", ".cmake"});
    for (const File& file : files) {
      const Complaints some = length_complaints(file, 620);
      found.insert(found.end(), some.begin(), some.end());
    }
  }
  EXPECT_TRUE(found.empty()) << report(found);
  EXPECT_EQ(length_complaints({"a.cpp", std::string(621, '\n')}, 620).size(), 1u);
  EXPECT_TRUE(length_complaints({"a.cpp", std::string(620, '\n')}, 620).empty());
}

TEST(Files, NameNoPathOfOneMachine) {
  const auto files = files_below(ADDNORM_SOURCE_DIR, "", {});
  const Complaints found = over(files, path_complaints);
  EXPECT_TRUE(found.empty()) << report(found);
  const std::string home =
      "cd /ho"
      "me/someone/addnorm\n";
  EXPECT_EQ(path_complaints({"a.sh", home}).size(), 1u);
  EXPECT_TRUE(path_complaints({"a.sh", "cat src/work.txt /tmp/x\n"}).empty());
}

TEST(Files, KeepTheProjectsHabits) {
  Complaints found;
  for (const std::string folder : {"src", "cli", "tests", "bench", "examples", "tools", "cmake"}) {
    const auto files = files_below(ADDNORM_SOURCE_DIR, folder,
                                   {".h", ".cpp", ".py", ".sh", ".js", ".cmake", ".txt"});
    for (const File& file : files) {
      const Complaints some = habit_complaints(file);
      found.insert(found.end(), some.begin(), some.end());
    }
  }
  EXPECT_TRUE(found.empty()) << report(found);
  EXPECT_EQ(habit_complaints({"a.cpp",
                              "#pragma "
                              "omp parallel\n"})
                .size(),
            1u);
}

TEST(Files, OpenWithWhatTheyPromise) {
  const Complaints found = over(library(), opening_complaints);
  EXPECT_TRUE(found.empty()) << report(found);
  EXPECT_EQ(opening_complaints({"a.h", "#pragma once\n"}).size(), 1u);
  const std::string own_header = "#include \"addnorm/base/a.h\"\n";
  EXPECT_TRUE(opening_complaints({"src/addnorm/base/a.cpp", own_header}).empty());
  EXPECT_EQ(opening_complaints({"src/addnorm/base/b.cpp", own_header}).size(), 1u);
}

}  // namespace
}  // namespace structure
