#include "addnorm/train/pieces.h"

#include <algorithm>

namespace addnorm::train {
namespace {

// Weights, gradients and two moments of a piece stay in a core's cache.
constexpr size_t piece_size = size_t{1} << 15;
constexpr size_t pieces_per_thread = 8;

std::vector<Piece> cut(const graph::Graph& graph) {
  std::vector<Piece> pieces;
  for (size_t parameter = 0; parameter < graph.parameters.size(); ++parameter) {
    const auto size = static_cast<size_t>(graph.parameters[parameter].size());
    for (size_t first = 0; first < size; first += piece_size) {
      pieces.push_back({pieces.size(), parameter, first, std::min(piece_size, size - first)});
    }
  }
  return pieces;
}

int useful_threads(size_t pieces, int threads) {
  return std::clamp(static_cast<int>(pieces / pieces_per_thread), 1, std::max(threads, 1));
}

}  // namespace

Pieces::Pieces(const graph::Graph& graph, int threads)
    : list_(cut(graph)), partial_(list_.size()), pool_(useful_threads(list_.size(), threads)) {}

}  // namespace addnorm::train
