// All parameters cut into pieces of fixed size, shared out among threads. What is computed on a piece
// never depends on the thread that takes it, nor the cutting on the number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "addnorm/base/threads.h"
#include "addnorm/graph/graph.h"

namespace addnorm::train {

struct Piece {
  size_t index = 0;      // of the piece
  size_t parameter = 0;  // index in the graph
  size_t first = 0;
  size_t count = 0;

  template <class T>
  std::span<T> of(std::span<T> tensor) const {
    return tensor.subspan(first, count);
  }
};

class Pieces {
 public:
  // Small models are done by the calling thread, whatever `threads` says: waking others costs more.
  Pieces(const graph::Graph& graph, int threads);

  const std::vector<Piece>& list() const { return list_; }
  // work(piece) for every piece, denormals flushed; never allocates.
  template <class Work>
  void for_each(const Work& work) {
    const auto share = [&](int number) {
      const auto threads = static_cast<size_t>(pool_.size());
      for (size_t i = static_cast<size_t>(number); i < list_.size(); i += threads) work(list_[i]);
    };
    pool_.run(std::ref(share));
  }
  // The sum of work(piece) in the order of the pieces, in double.
  template <class Work>
  double sum(const Work& work) {
    for_each([&](const Piece& piece) { partial_[piece.index] = work(piece); });
    double total = 0;
    for (const double one : partial_) total += one;
    return total;
  }

 private:
  std::vector<Piece> list_;
  std::vector<double> partial_;
  ThreadPool pool_;
};

}  // namespace addnorm::train
