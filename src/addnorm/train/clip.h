// The global gradient norm and what clipping did with it.
#pragma once

#include <cstdint>
#include <string>

#include "addnorm/engine/engine.h"
#include "addnorm/train/pieces.h"

namespace addnorm::train {

// sqrt of the sum of squares over all parameters, in double: gradients of 1e20 do not overflow it.
// The sum goes over pieces of fixed size in a fixed order, so it does not depend on the threads.
// Not finite if and only if some gradient is not.
double gradient_norm(engine::Engine<float>& engine, Pieces& pieces);

// norm > clip: clip/norm, else 1. clip 0 never clips.
double clip_factor(double norm, double clip);

// Which of the last 100 updates were clipped.
class ClipWindow {
 public:
  static constexpr size_t size = 100;
  void add(bool clipped);
  double share() const;  // 0 before the first update

  std::string text() const { return flags_; }  // "0110", oldest first; what checkpoints keep
  static ClipWindow from_text(const std::string& text);

 private:
  std::string flags_;
};

}  // namespace addnorm::train
