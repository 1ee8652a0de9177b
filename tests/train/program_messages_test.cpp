// What the verbs say to input that is nearly right: texts for specifications, folders of the wrong
// kind, prompts that cannot be read.
#include "program.h"

namespace addnorm::train {
namespace {

using program::holds;
using program::Place;
using program::Result;
using program::slurp;
using program::spit;
namespace fs = std::filesystem;

const std::vector<std::string> tiny_sizes = {
    "--model.layers", "1", "--model.width",   "8", "--model.heads", "2", "--model.context", "8",
    "--train.steps",  "3", "--train.threads", "1", "--train.batch", "2"};

std::vector<std::string> with_sizes(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), tiny_sizes.begin(), tiny_sizes.end());
  return arguments;
}

// `addnorm spec > my.toml` is good for every verb; only its text is not there yet.
TEST(ProgramTraining, TheDefaultSpecificationServesEveryVerb) {
  const Place place;
  spit(place / "my.toml", place.run({"spec"}).out);
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           with_sizes({"inspect", "my.toml"}),
           with_sizes({"init", "my.toml", "--out", "w.safetensors"}),
           {"compare", "my.toml", "my.toml"},
           with_sizes({"eval", "my.toml", "--weights", "w.safetensors", "--data", "text.txt"})}) {
    const Result result = place.run(arguments);
    EXPECT_EQ(result.code, 0) << arguments[0] << "\n" << result.err;
  }
  const Result chars = place.run({"inspect", "my.toml", "--data.tokenizer", "chars"});
  EXPECT_EQ(chars.code, 2);
  EXPECT_TRUE(holds(chars.err, "depends on the text")) << chars.err;
  const Result missing = place.run({"train", "my.toml"});
  EXPECT_EQ(missing.code, 2);
  for (const char* part : {"corpus.txt", "source under [data]", "--data.source FILE"}) {
    EXPECT_TRUE(holds(missing.err, part)) << part << "\n" << missing.err;
  }
  EXPECT_EQ(place.run(with_sizes({"train", "my.toml", "--data.source", "text.txt"})).code, 0);
  const Result sweep = place.run({"sweep", "my.toml", "--run", "s"});
  EXPECT_EQ(sweep.code, 2);
  EXPECT_TRUE(holds(sweep.err, "--data.source FILE")) << sweep.err;
  EXPECT_FALSE(fs::exists(place / "s"));
}

TEST(ProgramTraining, ATextWhereASpecificationBelongs) {
  const Place place;
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"inspect", "text.txt"}, {"compare", "text.txt", "x"}, {"init", "text.txt"}}) {
    const Result result = place.run(arguments);
    EXPECT_EQ(result.code, 2) << result.all();
    EXPECT_TRUE(holds(result.err, "[text.txt]")) << result.err;
    EXPECT_TRUE(holds(result.err, "`addnorm train`")) << result.err;
    EXPECT_FALSE(holds(result.err, "syntax")) << result.err;
  }
  // sweep takes it, as train does.
  const Result sweep = place.run(with_sizes(
      {"sweep", "text.txt", "--run", "s", "--seeds", "1", "--wiring", "x = norm(x + f(x))"}));
  ASSERT_EQ(sweep.code, 0) << sweep.err;
  const auto record = nlohmann::json::parse(slurp(place / "s/sweep.json"));
  EXPECT_EQ(record.at("cells").at(0).at("seeds").at(0).at("steps"), 3) << sweep.err;

  const std::string run = record.at("cells").at(0).at("seeds").at(0).at("run");
  // The sweep's folder where one of its runs belongs.
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"inspect", "s"},
                                                                     {"resume", "s"},
                                                                     {"eval", "s"},
                                                                     {"generate", "s"},
                                                                     {"compare", "s", "s"}}) {
    const Result result = place.run(arguments);
    EXPECT_EQ(result.code, 2) << arguments[0];
    EXPECT_TRUE(holds(result.err, "got the folder of a sweep")) << result.err;
    EXPECT_TRUE(holds(result.err, "s/" + run)) << result.err;
  }
  EXPECT_EQ(place.run({"inspect", "s/" + run}).code, 0);
  for (const std::string& folder : {std::string("s"), "s/" + run}) {
    for (const char* verb : {"train", "sweep"}) {
      const Result result = place.run({verb, folder});
      EXPECT_EQ(result.code, 2) << verb << folder;
      EXPECT_TRUE(holds(result.err, "expected a specification or a text")) << result.err;
    }
  }
}

TEST(ProgramTraining, AnExistingRunIsRefusedBeforeTheTextIsRead) {
  const Place place;
  fs::create_directory(place / "taken");
  const Result result =
      place.run({"train", "spec.toml", "--run", "taken", "--data.source", "none.txt"});
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(holds(result.err, "expected a new folder, got taken")) << result.err;
  EXPECT_FALSE(holds(result.err, "none.txt")) << result.err;
}

TEST(ProgramTraining, NoPromptBeforeAnError) {
  const Place place;
  ASSERT_EQ(place.run({"train", "spec.toml", "--run", "r", "--data.tokenizer", "chars"}).code, 0);
  const Result unknown = place.run({"generate", "r", "--prompt", "the Z"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(place.run({"generate", "r", "--prompt", "the", "--tokens", "0"}).out, "the\n");
}

// Times and rates are of the steps, in units that can be read.
TEST(ProgramTraining, ShortRunsTellTheirRate) {
  const Place place;
  const Result result = place.run({"train", "spec.toml", "--run", "r"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(holds(result.err, "took 0 s")) << result.err;
  EXPECT_TRUE(holds(result.err, "ms")) << result.err;
}

}  // namespace
}  // namespace addnorm::train
