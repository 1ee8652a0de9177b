// addnorm grad: exact loss, logits and gradients of one batch, for comparing with anything else.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "addnorm/checkpoint/batch_file.h"
#include "addnorm/checkpoint/safetensors.h"
#include "addnorm/checkpoint/weights.h"
#include "addnorm/engine/engine.h"
#include "addnorm/model/estimate.h"
#include "output.h"
#include "specification.h"
#include "verb.h"

namespace addnorm::cli {
namespace {

struct Options {
  std::string spec, weights, batch, out, catalogue, precision = "double", engine = "auto";
  bool points = false;
};

template <class T>
bool all_finite(std::span<const T> values) {
  for (const T value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

std::vector<int64_t> point_dims(const graph::Graph& graph, const nodes::Batch& batch,
                                graph::ValueId id) {
  const graph::Value& value = graph.values[static_cast<size_t>(id)];
  if (value.parameter >= 0) return graph.parameters[static_cast<size_t>(value.parameter)].dims;
  if (!value.shape.per_token()) return {value.shape.cols};
  const int64_t length =
      value.shape.rows == graph::Rows::source ? batch.source_length : batch.length;
  return {batch.sequences, length, value.shape.cols};
}

template <class T>
int compute(const Options& options, const graph::Graph& graph, const nodes::Batch& batch,
            engine::Engine<T>& engine) {
  constexpr auto type =
      sizeof(T) == 8 ? checkpoint::ElementType::f64 : checkpoint::ElementType::f32;
  checkpoint::load_weights(
      options.weights, graph,
      std::function<std::span<T>(size_t)>([&](size_t i) { return engine.parameter(i); }));
  engine::Request request;
  request.t = std::numeric_limits<double>::infinity();
  request.keep_logits = true;
  if (options.points) {
    for (const auto& [name, id] : graph.points) request.points.push_back(id);
  }
  const T loss = static_cast<T>(engine.run(batch, request));
  bool finite = std::isfinite(loss) && all_finite(engine.logits());
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    finite = finite && all_finite(std::span<const T>(engine.gradient(i)));
  }
  if (!finite) {
    const engine::NonFinite bad = engine.find_non_finite(batch, request);
    throw Error(
        Failure::nonfinite,
        fmt::format("error [{}] expected finite numbers, got loss {:.9g} and the first non-finite "
                    "one in {}{}: {}; nothing was written",
                    options.weights, static_cast<double>(loss),
                    bad.in_backward ? "the backward pass at " : "", bad.tensor, bad.detail));
  }
  std::vector<checkpoint::TensorOut> tensors;
  tensors.push_back({"loss", type, {1}, &loss, {}});
  tensors.push_back(
      {"logits", type, {batch.sequences, batch.length, graph.vocab}, engine.logits().data(), {}});
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    tensors.push_back({"grad:" + graph.parameters[i].name,
                       type,
                       graph.parameters[i].dims,
                       engine.gradient(i).data(),
                       {}});
  }
  if (options.points) {
    for (const auto& [name, id] : graph.points) {
      const auto dims = point_dims(graph, batch, id);
      tensors.push_back({"point:" + name, type, dims, engine.point(id).data(), {}});
      tensors.push_back({"grad_point:" + name, type, dims, engine.point_gradient(id).data(), {}});
    }
  }
  checkpoint::write_safetensors(options.out, tensors);
  print_line(fmt::format("loss {:.17g}", static_cast<double>(loss)));
  print_line(fmt::format("{} tensors in {}", tensors.size(), options.out));
  return 0;
}

// Refuses what cannot fit before anything is allocated: weights and gradients, and in the reference
// engine every value of the batch with its gradient. Sums in double, which no size overflows.
void require_memory(const graph::Graph& graph, const nodes::Batch& batch, double number_bytes,
                    bool reference) {
  model::Estimate estimate;
  for (const graph::Parameter& parameter : graph.parameters) {
    double size = 1;
    for (const int64_t dim : parameter.dims) size *= static_cast<double>(dim);
    estimate.parameters += size;
  }
  estimate.weight_bytes = estimate.gradient_bytes = number_bytes * estimate.parameters;
  estimate.tokens = static_cast<double>(batch.sequences * (batch.length + batch.source_length));
  for (const graph::Node& node : graph.nodes) {
    const nodes::Shape& out = graph.shape(node.output);
    if (!reference || !out.per_token()) continue;
    const int64_t length = out.rows == nodes::Rows::source ? batch.source_length : batch.length;
    estimate.activation_bytes += 2 * number_bytes * static_cast<double>(batch.sequences * length) *
                                 static_cast<double>(out.cols);
  }
  model::require_memory(estimate, model::available_memory());
}

int run(const Options& options, const Invocation& invocation) {
  const Model model = load_model(options.spec, options.catalogue, invocation);
  const graph::ModelShape& shape = model.shape;
  const graph::Graph& graph = model.graph;
  const bool pair = shape.kind == graph::ModelKind::encoder_decoder;
  const auto file = checkpoint::read_batch(options.batch, {graph.vocab, graph.context, pair});
  Findings findings = file.findings;
  const int64_t empty =
      nodes::rows_without_keys(file.batch, shape.kind != graph::ModelKind::encoder);
  if (empty > 0) {
    findings.push_back(
        {Level::warning, options.batch,
         fmt::format("{} attention rows have every key masked; they give 0", empty)});
  }
  log_findings(findings, invocation.verbose);
  const bool in_double = options.precision == "double";
  require_memory(graph, file.batch, in_double ? 8 : 4, in_double || options.engine == "reference");
  if (in_double) {
    return compute(options, graph, file.batch, *engine::make_reference<double>(graph));
  }
  if (options.engine == "reference") {
    return compute(options, graph, file.batch, *engine::make_reference<float>(graph));
  }
  return compute(options, graph, file.batch, *engine::make_cpu(graph, 0));
}

const Register verb(
    {.name = "grad",
     .summary = "exact loss, logits and gradients of one batch",
     .example = "addnorm grad spec.toml --weights w.safetensors --batch b.safetensors "
                "--out g.safetensors --points",
     .order = 40,
     .takes_overrides = true,
     .setup = [](Arguments& arguments) -> Action {
       auto options = std::make_shared<Options>();
       arguments.positional("SPEC", options->spec, "specification; [model] is enough");
       arguments.option("--weights", options->weights, "the model's tensors, safetensors", "FILE",
                        true);
       arguments.option("--batch", options->batch,
                        "tokens, targets, mask, source, source_mask, safetensors", "FILE", true);
       arguments.option("--out", options->out, "file to write", "FILE", true);
       arguments.catalogue(options->catalogue);
       arguments.choice("--precision", options->precision, {"double", "float"},
                        "double: the reference engine; float: the fast one");
       arguments.choice("--engine", options->engine, {"auto", "reference"},
                        "reference: plain loops also in float");
       arguments.flag("--points", options->points,
                      "also every named value of the formula and its gradient");
       return [options](const Invocation& invocation) { return run(*options, invocation); };
     }});

}  // namespace
}  // namespace addnorm::cli
