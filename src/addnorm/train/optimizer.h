// Adam, AdamW and SGD with momentum over the parameters of an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "addnorm/engine/engine.h"
#include "addnorm/model/specification.h"
#include "addnorm/train/pieces.h"

namespace addnorm::train {

// Factors of one parameter: the learning rate is lr * lr_scale, the decay weight_decay * decay.
struct ParameterFactors {
  double lr_scale = 1;
  double decay = 1;
};

// Of every parameter, by role and stack, at update t: [train.lr_scale] and [train.decay].
std::vector<ParameterFactors> parameter_factors(const model::TrainSection& train,
                                                const graph::ModelShape& shape,
                                                const graph::Graph& graph, int64_t t = 1);
// Whether any of them reads t.
bool factors_change(const model::TrainSection& train);

// Where a tensor holds a number that is not finite; `index` -1: nowhere.
struct BadElement {
  std::string tensor;
  int64_t index = -1;
};

class Optimizer {
 public:
  enum class Kind : uint8_t { adam, adamw, sgd };

  Optimizer(const model::TrainSection& train, const graph::Graph& graph,
            std::vector<ParameterFactors> factors);

  // Takes the factors anew at every update; without it they stay those of the constructor.
  void follow(std::function<std::vector<ParameterFactors>(int64_t t)> factors) {
    factors_at_ = std::move(factors);
  }

  // One update, the t-th (from 1; bias correction counts it):
  //   adamw  w -= lr*scale*(m^/(sqrt(v^) + eps) + weight_decay*decay*w)     Loshchilov and Hutter 2019
  //   adam   the decay is added to the gradient (L2)                         Kingma and Ba 2015
  //   sgd    buffer = momentum*buffer + g + decay*w;  w -= lr*scale*buffer
  // g is the engine's gradient times `gradient_factor` (clipping). Gradients are left as they were.
  // False: afterwards some weight or moment is not finite (first_non_finite() says which).
  bool update(engine::Engine<float>& engine, Pieces& pieces, int64_t t, double lr,
              double gradient_factor);

  // First non-finite weight or moment, in the order of the parameters.
  BadElement first_non_finite(engine::Engine<float>& engine, Pieces& pieces) const;

  // Moments, in the order of the parameters: "m:NAME" and "v:NAME" of adam, "momentum:NAME" of sgd
  // (none where momentum is 0). What checkpoints hold.
  struct Moment {
    std::string name;
    size_t parameter = 0;
    std::vector<float>* values = nullptr;
  };
  std::vector<Moment> moments();

 private:
  Kind kind_;
  double beta1_, beta2_, eps_, momentum_, weight_decay_;
  std::vector<ParameterFactors> factors_;
  std::function<std::vector<ParameterFactors>(int64_t)> factors_at_;
  std::vector<std::string> names_;
  std::vector<std::vector<float>> first_;   // m, or the momentum buffer
  std::vector<std::vector<float>> second_;  // v
  bool finite(engine::Engine<float>& engine, const Piece& piece) const;
};

}  // namespace addnorm::train
