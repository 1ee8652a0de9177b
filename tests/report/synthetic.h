// Run and sweep folders as the training verb and a sweep leave them, made up.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "addnorm/lab/record.h"
#include "addnorm/model/specification.h"

namespace addnorm::test {

struct RunShape {
  std::string wiring = "pre-ln";
  int layers = 6;
  std::string warmup = "0";
  int64_t seed = 1;
  int64_t steps = 200;
  int64_t stop_after = 200;  // killed there if smaller
  double level = 2.3;        // where the loss ends
  int64_t gap = 0;           // this update's loss is infinite
  bool diagnostics = true;
};

inline void write_run(const std::filesystem::path& folder, const RunShape& shape) {
  std::filesystem::create_directories(folder);
  const std::string toml = fmt::format(
      "[model]\nkind = \"decoder\"\nlayers = {}\nwidth = 64\nheads = 4\ncontext = 64\nwiring = "
      "\"{}\"\n"
      "[data]\nsource = \"text.txt\"\n[train]\nsteps = {}\nlr = 5e-3\nwarmup = {}\nseed = {}\n",
      shape.layers, shape.wiring, shape.steps, shape.warmup, shape.seed);
  const auto specification =
      model::parse(toml, "spec.toml", {}, model::Needs::training, formula::Catalogue::builtin());
  std::ofstream(folder / "spec.toml") << model::resolved_toml(specification);
  std::ofstream out(folder / "metrics.jsonl");
  out << R"({"event":"note","step":0,"text":"4 sentences <b>of</b> data","unigram_entropy":3.02,"bigram_entropy":2.326})"
      << "\n"
      << R"({"event":"step","step":0,"loss":5.6,"clipped":0,"tokens":0,"seconds":0})" << "\n";
  for (int64_t i = 1; i <= shape.stop_after; ++i) {
    const double x = static_cast<double>(i);
    const double wobble = 0.05 * std::sin(0.7 * x + static_cast<double>(shape.seed));
    const double loss = shape.level + (5.2 - shape.level) * std::exp(-x / 18) + wobble;
    out << fmt::format(
        "{{\"event\":\"step\",\"step\":{},\"loss\":{},\"lr\":0.005,\"grad_norm\":{},\"clip\":1,"
        "\"tokens\":{},"
        "\"seconds\":{}}}\n",
        i, i == shape.gap ? "\"Infinity\"" : fmt::format("{}", loss),
        1 + 3 * std::exp(-x / 10) + wobble, 1024 * i, 0.1 * x);
    if (!shape.diagnostics || (i != 1 && i % 20 != 0)) continue;
    out << fmt::format("{{\"event\":\"diag\",\"step\":{},\"layers\":[", i);
    for (int l = 0; l < shape.layers; ++l) {
      out << fmt::format(
          "{}{{\"layer\":{},\"stack\":\"\",\"stream_ms\":{},\"stream_grad_norm\":{},\"grad_norm\":"
          "1,"
          "\"update_ratio\":0.001}}",
          l == 0 ? "" : ",", l, 1 + 0.5 * l, 0.01 * std::exp(0.1 * (shape.layers - l) - 0.002 * x));
    }
    out << fmt::format(
        "],\"out\":[{{\"stack\":\"\",\"stream_ms\":{},\"stream_grad_norm\":0.01,\"r\":0.4}}],"
        "\"roles\":{{\"q\":{{\"grad_norm\":0.1,\"update_ratio\":0.001}}}},\"seconds\":0.01}}\n",
        1 + 0.5 * shape.layers);
  }
  if (shape.stop_after == shape.steps) {
    out << fmt::format("{{\"event\":\"eval\",\"step\":{},\"val_loss\":{}}}\n", shape.steps,
                       shape.level + 0.03);
  } else {
    out << "{\"event\":\"step\",\"st";
  }
}

// The six cells of the demo at three seeds.
inline lab::SweepResult write_sweep(const std::filesystem::path& folder, int seeds = 3) {
  struct Cell {
    const char* wiring;
    int layers;
    const char* warmup;
    double level;
  };
  lab::SweepResult result;
  result.specification = "recipes/demo.toml";
  result.planned_seeds = 3;
  result.unigram_entropy = 3.02;
  int number = 0;
  for (const Cell& cell : {Cell{"post-ln", 6, "0", 3.0},
                           {"post-ln", 6, "100", 2.32},
                           {"pre-ln", 6, "0", 2.28},
                           {"pre-ln", 6, "100", 2.26},
                           {"post-ln", 12, "100", 3.01},
                           {"deepnorm", 12, "100", 2.25}}) {
    lab::CellResult& record = result.cells.emplace_back();
    record.keys = {{"wiring", cell.wiring},
                   {"layers", static_cast<double>(cell.layers)},
                   {"lr", 0.005},
                   {"warmup", lab::value_of(cell.warmup)}};
    if (number == 5) record.keys.emplace_back("init.v", "xavier_normal((8*L)^(-1/4))");
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      const double level = cell.level + 0.01 * static_cast<double>(seed);
      const std::string run = fmt::format("runs/cell-{}/seed-{}", number, seed);
      write_run(folder / run, {cell.wiring, cell.layers, cell.warmup, seed, 200, 200, level,
                               number == 1 && seed == 2 ? 60 : 0, true});
      record.seeds.push_back({seed, level > 2.9 ? lab::Outcome::stalled : lab::Outcome::learned,
                              level, level + 0.03, 200, 20.0, run});
    }
    ++number;
  }
  std::ofstream(folder / "sweep.json") << lab::sweep_json(result);
  return result;
}

}  // namespace addnorm::test
