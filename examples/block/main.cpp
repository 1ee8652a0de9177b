// From a wiring formula to exact gradients: two layers of a small decoder, weights at random, and the
// size of the gradient of every weight.
#include <cmath>
#include <iostream>

#include "addnorm/base/random.h"
#include "addnorm/engine/engine.h"
#include "addnorm/formula/check.h"
#include "addnorm/graph/lower.h"

using namespace addnorm;  // NOLINT(google-build-using-namespace): an example

int main(int argc, char** argv) try {
  graph::ModelShape shape;
  shape.decoder.program = formula::parse(argc > 1 ? argv[1] : "x = norm(x + f(x))");
  shape.decoder.layers = 2;
  shape.width = 16;
  shape.heads = shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.ffn = 64;
  shape.vocab = 11;
  shape.context = 6;
  const Findings findings =
      formula::check(shape.decoder.program, graph::context_of(shape, graph::StackSide::single));
  if (has_errors(findings)) throw Error(findings);

  const auto engine = engine::make_reference<double>(graph::lower(shape));
  const auto& parameters = engine->graph().parameters;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Random random(1, parameters[p].name);
    uint64_t index = 0;
    for (double& weight : engine->parameter(p)) {
      weight = parameters[p].matrix ? 0.1 * random.normal(index++) : parameters[p].start;
    }
  }

  nodes::Batch batch;
  batch.sequences = 1;
  batch.length = 6;
  batch.tokens = {3, 1, 4, 1, 5, 9};
  batch.targets = {1, 4, 1, 5, 9, 2};
  engine->zero_gradients();
  std::cout << "loss " << engine->run(batch, {}) << '\n';
  for (size_t p = 0; p < parameters.size(); ++p) {
    double squares = 0;
    for (const double g : engine->gradient(p)) squares += g * g;
    std::cout << parameters[p].name << " |gradient| " << std::sqrt(squares) << '\n';
  }
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return static_cast<int>(error.failure());
}
