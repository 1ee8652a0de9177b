// Case G3 of cases.md: the names and values of points, for every wiring, on both engines.
#include <set>

#include "addnorm/engine/engine.h"
#include "addnorm/formula/check.h"
#include "cases/support.h"
#include "engine/models.h"

namespace addnorm::cases {
namespace {

using formula::Expr;

// Names by design.md, section 4, read off the text: no part of the lowering is asked.
class NamesOf {
 public:
  NamesOf(const formula::Program& program, int layers) {
    add({"embed", "out", "logits"});
    bool assigns_x = false;
    section(program.let, "", nullptr);
    section(program.begin, "begin.", &assigns_x);
    if (!assigns_x) add({"begin.x"});
    for (int layer = 0; layer < layers; ++layer) {
      for (const formula::Block& block : program.blocks) {
        if (!holds(block, layer + 1, layers)) continue;
        const std::string place = "blocks." + std::to_string(layer) + ".";
        if (formula::calls_f(block)) {
          for (const char* branch : {"attn", "ffn"}) {
            section(block.body, place + branch + ".", nullptr);
            calls(block.body, place, branch);
          }
        } else {
          section(block.body, place, nullptr);
          calls(block.body, place, "");
        }
        break;
      }
    }
    section(program.end, "end.", nullptr);
  }
  const std::set<std::string>& names() const { return names_; }
  const std::set<std::string>& writes() const { return writes_; }

 private:
  void add(const std::vector<std::string>& names) { names_.insert(names.begin(), names.end()); }

  static bool holds(const formula::Block& block, int layer, int layers) {
    if (!block.first) return true;
    const formula::Scalars scalars = {{"L", layers}, {"fraction", 0.25}};
    return layer >= *formula::evaluate(*block.first, scalars) &&
           layer <= *formula::evaluate(*block.last, scalars);
  }
  // Whether a value can be anything but a scalar.
  bool tensor(const Expr& e) const {
    if (e.kind == Expr::Kind::number) return false;
    if (e.kind == Expr::Kind::name) return tensors_.contains(e.name);
    if (e.kind == Expr::Kind::call && (e.name == "param" || formula::is_branch(e.name)))
      return true;
    for (const auto& argument : e.args) {
      if (tensor(*argument)) return true;
    }
    return false;
  }
  void section(const std::vector<formula::Statement>& body, const std::string& place,
               bool* assigns_x) {
    std::map<std::string, int> total, seen;
    for (const auto& statement : body) {
      for (const std::string& name : statement.names) ++total[name];
    }
    for (const auto& statement : body) {
      for (size_t i = 0; i < statement.names.size(); ++i) {
        const std::string& name = statement.names[i];
        if (assigns_x != nullptr && name == "x") *assigns_x = true;
        const int number = ++seen[name];
        if (!tensor(*statement.values[i])) continue;
        tensors_.insert(name);
        if (name == "out") continue;
        names_.insert(place + name + (number == total[name] ? "" : "." + std::to_string(number)));
      }
    }
  }
  void calls(const std::vector<formula::Statement>& body, const std::string& place,
             const std::string& f) {
    std::map<std::string, int> numbers;
    for (const auto& statement : body) {
      for (const auto& value : statement.values) {
        formula::visit(*value, [&](const Expr& e) {
          if (e.kind != Expr::Kind::call || !formula::is_branch(e.name)) return;
          const std::string kind = e.name == "f" ? f : e.name;
          const int number = ++numbers[kind];
          const std::string branch = place + kind + (number == 1 ? "" : std::to_string(number));
          add({branch + ".in", branch + ".out"});
          writes_.insert(branch + ".write");
        });
      }
    }
  }

  std::set<std::string> names_, writes_, tensors_ = {"x", "embed", "memory"};
};

// Wirings whose branches lead only into matrices: no `.write`.
bool has_writes(const std::string& name) { return name != "gtrxl" && name != "gru-gate"; }

bool single_stack(const formula::Entry& entry) {
  return !entry.name.ends_with("/decoder") && !entry.name.ends_with("/encoder") &&
         entry.formula.find("cross(") == std::string::npos;
}

TEST(G3, NamesAreWhatTheFormulaDefines) {
  int compared = 0;
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    if (!single_stack(entry)) continue;
    const auto shape = testing_models::small_shape(graph::ModelKind::decoder, entry.formula, 3);
    const NamesOf expected(shape.decoder.program, 3);
    std::set<std::string> names, writes;
    for (const auto& [name, id] : graph::lower(shape).points) {
      (name.ends_with(".write") ? writes : names).insert(name);
    }
    EXPECT_EQ(names, expected.names()) << entry.name;
    EXPECT_EQ(writes, has_writes(entry.name) ? expected.writes() : std::set<std::string>())
        << entry.name;
    ++compared;
  }
  EXPECT_GE(compared, 55);
}

template <class T>
struct Run {
  double loss = 0;
  std::vector<T> logits;
  std::vector<std::vector<T>> gradients;
  std::map<std::string, std::pair<std::vector<T>, std::vector<T>>> points;
};

template <class T>
Run<T> computed(engine::Engine<T>& engine, const nodes::Batch& batch, bool points) {
  const graph::Graph& graph = engine.graph();
  engine.zero_gradients();
  engine::Request request;
  request.t = 700;
  request.keep_logits = true;
  if (points) {
    for (const auto& [name, id] : graph.points) request.points.push_back(id);
  }
  Run<T> run;
  run.loss = engine.run(batch, request);
  const auto copy = [](auto span) { return std::vector<T>(span.begin(), span.end()); };
  run.logits = copy(engine.logits());
  for (size_t i = 0; i < graph.parameters.size(); ++i)
    run.gradients.push_back(copy(engine.gradient(i)));
  if (points) {
    for (const auto& [name, id] : graph.points)
      run.points[name] = {copy(engine.point(id)), copy(engine.point_gradient(id))};
  }
  return run;
}

template <class T>
void expect_unmoved(engine::Engine<T>& engine, const graph::ModelShape& shape,
                    const std::string& name) {
  const graph::Graph& graph = engine.graph();
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Random random(3, graph.parameters[i].name);
    const double start = graph.parameters[i].matrix ? 0 : graph.parameters[i].start;
    for (size_t e = 0; e < engine.parameter(i).size(); ++e) {
      engine.parameter(i)[e] = static_cast<T>(start + 0.15 * random.normal(e));
    }
  }
  for (const int64_t sequences : {1, 3}) {
    for (const int64_t length : {1, 17}) {
      auto batch = testing_models::make_batch(shape, sequences, length, false);
      if (shape.kind == graph::ModelKind::encoder_decoder) {
        batch.source_length = 3;
        batch.source.assign(static_cast<size_t>(3 * sequences), 7);
      }
      const std::string where =
          name + ", B " + std::to_string(sequences) + ", T " + std::to_string(length);
      const Run<T> plain = computed(engine, batch, false), watched = computed(engine, batch, true);
      EXPECT_EQ(plain.loss, watched.loss) << where;
      EXPECT_EQ(plain.logits, watched.logits) << where;
      EXPECT_EQ(plain.gradients, watched.gradients) << where;
      for (const auto& [point, values] : watched.points) {
        EXPECT_FALSE(values.first.empty()) << where << ", " << point;
        EXPECT_EQ(values.first.size(), values.second.size()) << where << ", " << point;
      }
      EXPECT_EQ(watched.points.size(), graph.points.size());
      EXPECT_EQ(watched.points.at("logits").first, watched.logits) << where;
    }
  }
}

graph::ModelShape shape_of(const formula::Entry& entry) {
  const bool pair = !single_stack(entry);
  auto shape = testing_models::small_shape(
      pair ? graph::ModelKind::encoder_decoder : graph::ModelKind::decoder,
      entry.name.ends_with("/encoder") ? "x = norm(x + f(x))" : entry.formula, 2);
  shape.context = 17;
  if (entry.name.ends_with("/encoder")) shape.encoder.program = formula::parse(entry.formula);
  return shape;
}

TEST(G3, TheReferenceComputesTheSameBitsWithAndWithoutPoints) {
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const auto shape = shape_of(entry);
    const auto engine = engine::make_reference<double>(graph::lower(shape));
    expect_unmoved(*engine, shape, entry.name);
  }
}

TEST(G3Threads, TheFastEngineComputesTheSameBitsWithAndWithoutPoints) {
  for (const formula::Entry& entry : formula::Catalogue::builtin().entries()) {
    const auto shape = shape_of(entry);
    const auto engine = engine::make_cpu(graph::lower(shape), 2);
    expect_unmoved(*engine, shape, entry.name);
  }
}

TEST(G3, TheProgramWritesEveryPointAndTheSameNumbersWithoutThem) {
  const Bench bench;
  const std::string toml =
      "[model]\nkind = \"decoder\"\nlayers = 2\nwidth = 8\nheads = 2\nvocab = 20\ncontext = "
      "17\nwiring = \"pre-ln\"\n";
  const std::string spec = bench.write("spec.toml", toml);
  std::vector<std::vector<int32_t>> ids(3), targets(3);
  for (size_t row = 0; row < 3; ++row) {
    for (int i = 0; i < 17; ++i) {
      ids[row].push_back((i * 7 + static_cast<int>(row)) % 20);
      targets[row].push_back((i * 3 + 1) % 20);
    }
  }
  const std::string batch = bench.batch("b.safetensors", tokens(ids, targets));
  for (const char* wiring : {"pre-ln", "post-ln", "resi-dual", "parallel"}) {
    const graph::Graph graph = lowered(toml, {{"model.wiring", wiring}});
    const std::string weights = bench.weights("w.safetensors", graph, random_weights(graph));
    for (const Precision& precision : precisions()) {
      Arguments arguments = precision.arguments;
      arguments.insert(arguments.end(), {"--model.wiring", wiring});
      const Graded watched = bench.grad(spec, weights, batch, arguments);
      ASSERT_EQ(watched.ran.code, 0) << watched.ran.err;
      std::set<std::string> names = {"loss", "logits"}, got;
      for (const graph::Parameter& parameter : graph.parameters)
        names.insert("grad:" + parameter.name);
      for (const auto& [name, id] : graph.points)
        names.insert({"point:" + name, "grad_point:" + name});
      for (const auto& [name, values] : watched.tensors) {
        got.insert(name);
        EXPECT_FALSE(values.empty()) << name;
      }
      EXPECT_EQ(got, names);
      Arguments plain = {"grad",    spec,  "--weights", weights,
                         "--batch", batch, "--out",     bench.path("plain").string()};
      plain.insert(plain.end(), arguments.begin(), arguments.end());
      ASSERT_EQ(bench.run(plain).code, 0);
      const auto file = checkpoint::SafetensorsFile::open(bench.path("plain"));
      EXPECT_EQ(file.tensors().size(), graph.parameters.size() + 2);
      for (const auto& tensor : file.tensors()) {
        EXPECT_EQ(file.read_double(tensor), watched[tensor.name])
            << tensor.name << ", " << precision.name;
      }
    }
  }
  // What the program cannot give is an error, never a missing name.
  EXPECT_EQ(
      bench.run({"grad", spec, "--weights", "w", "--batch", "b", "--out", "o", "--attention"}).code,
      2);
}

}  // namespace
}  // namespace addnorm::cases
