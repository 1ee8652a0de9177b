// The loss before any update, and whether the output head starts where an untrained one should.
#pragma once

#include <string>
#include <vector>

#include "addnorm/engine/engine.h"

namespace addnorm::train {

struct FirstLoss {
  double loss = 0;      // of the first step's batch, without dropout, label smoothing and z-loss
  std::string warning;  // more than 10 % off ln V: the standard deviation of the logits and ln V
};

FirstLoss first_loss(engine::Engine<float>& engine, const std::vector<nodes::Batch>& micro_batches);

}  // namespace addnorm::train
