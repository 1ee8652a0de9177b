// The specification: what a TOML file and command-line flags say, resolved to values that each know
// where they came from. One registry of keys (keys.h) makes parser, defaults, help, documentation
// and `addnorm spec`.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/catalogue.h"
#include "addnorm/graph/lower.h"

namespace addnorm::model {

enum class Source { default_value, wiring, file, flag };

// Empty optionals and strings: not given. Expressions stay text until the model's sizes are known.
struct ModelSection {
  std::string kind;  // decoder | encoder | encoder-decoder
  int layers = 0, encoder_layers = 0, decoder_layers = 0;
  int64_t width = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  std::string activation = "gelu", positions = "learned";
  std::string norm = "layernorm";
  std::optional<double> norm_eps;
  bool norm_bias = true, norm_unit_offset = false;
  std::vector<std::string> bias;  // roles with a linear bias; all of them for `true`
  bool head_bias = false, tie_embeddings = true, share_embeddings = false;
  std::string embed_scale = "1", attn_scale = "1/sqrt(head_dim)", logit_scale = "1";
  double attn_softcap = 0, logit_softcap = 0;
  std::string rope_layout = "half";
  double rope_base = 10000;
  int64_t rotary_dim = 0, relative_buckets = 32, relative_distance = 128;
  int64_t vocab = 0, context = 256;
  double dropout = 0;
  // Formulas, whatever the file named; a pair has one for each stack, and `wiring` is empty.
  std::string wiring, encoder_wiring, decoder_wiring;
  // What was named: "mix-ln(fraction=0.06)"; "" for a formula of one's own.
  std::string wiring_name, encoder_wiring_name, decoder_wiring_name;
};

struct DataSection {
  std::vector<std::string> source, target;
  std::string tokenizer = "bytes";
  std::string validation = "0.1";  // a share, or a file
  std::string encoding = "utf-8", documents = "stream", sampling = "epoch";
  double mask_rate = 0.15;
};

struct TrainSection {
  int64_t steps = 0, batch = 16, accumulate = 1;
  double lr = 0, min_lr = 0;
  std::string schedule = "cosine", decay_steps = "20%", warmup = "0";
  std::string optimizer = "adamw";
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0.9;
  std::optional<double> weight_decay;  // absent: 0.1 for adamw, 0 for adam and sgd
  double clip = 1;
  uint64_t seed = 1;
  int threads = 0;
  double label_smoothing = 0, z_loss = 0;
  std::string on_nonfinite = "stop";
  int64_t eval_every = 0, checkpoint_every = 0, diag_every = 0, eval_tokens = 0;
  std::map<std::string, std::string> lr_scale, decay;  // role -> expression
};

struct Specification {
  ModelSection model;
  std::map<std::string, std::string>
      init;  // role (with "encoder." or "decoder.") -> rule text, resolved
  DataSection data;
  TrainSection train;
  std::map<std::string, Source> sources;  // "train.lr" -> where its value came from
  std::string file;                       // "" where there was none
  Findings findings;                      // warnings and information; errors are thrown
};

using Overrides = std::vector<std::pair<std::string, std::string>>;  // "model.layers" -> "24"
// What a verb requires: the model with its vocabulary; the model, whose vocabulary a text may give;
// data and training too.
enum class Needs { model, text, training };

// Reads and judges everything: TOML, keys, types, ranges, wirings, init rules, expressions. All
// problems of a file that is TOML come in one Error, each with file, line, key, what was expected,
// what came, and the nearest valid key. Flags count as "--model.layers".
Specification load(const std::filesystem::path& file, const Overrides& overrides, Needs needs,
                   const formula::Catalogue& catalogue);
Specification parse(const std::string& toml, const std::string& file, const Overrides& overrides,
                    Needs needs, const formula::Catalogue& catalogue);
// The resolved specification that a run keeps: as load() and parse(), but values keep the sources
// that stand beside them ("# default"), flags excepted.
Specification load_resolved(const std::filesystem::path& file, const Overrides& overrides,
                            Needs needs, const formula::Catalogue& catalogue);
Specification parse_resolved(const std::string& toml, const std::string& file,
                             const Overrides& overrides, Needs needs,
                             const formula::Catalogue& catalogue);
// What `train` and `sweep` take: a specification (*.toml), or a text that stands for one.
Specification for_training(const std::filesystem::path& file, const Overrides& overrides,
                           const formula::Catalogue& catalogue);
// The specification of `addnorm train my.txt`: the listing's values for required keys.
Specification for_text(const std::string& text_file, const Overrides& overrides,
                       const formula::Catalogue& catalogue);

// TOML that loads to the same specification: formulas written out (`wiring`, `wiring_name`),
// published initialization written out, each value with its source as a comment.
std::string resolved_toml(const Specification& specification);
// The sources that stand in a resolved specification, by key.
std::map<std::string, Source> sources_in(const std::string& resolved);
std::string commented_default();  // `addnorm spec`
std::string documentation();      // docs/specification.md
// "--train.lr   learning rate at its top (required)", of one section or ("") of all.
std::vector<std::string> flag_lines(const std::string& section = "");

// Sizes and programs, checked; throws on errors of the formula for this model. `findings` receives
// warnings and information.
graph::ModelShape shape(const Specification& specification, const formula::Catalogue& catalogue,
                        Findings* findings = nullptr);

// L S d head_dim ffn N M of a stack (S counted from its program); what expressions in values may use.
formula::Scalars scalars(const graph::ModelShape& shape, graph::StackSide side);

// Factors of [train.lr_scale] and [train.decay] for a weight of this role and stack, at update t.
double lr_scale(const TrainSection& train, const graph::ModelShape& shape, graph::Role role,
                graph::StackSide side, double t = 1);
double decay_scale(const TrainSection& train, const graph::ModelShape& shape, graph::Role role,
                   graph::StackSide side, double t = 1);

// Resolved training numbers.
int64_t warmup_steps(const TrainSection& train);  // shares round up
int64_t decay_steps(const TrainSection& train);
double weight_decay(const TrainSection& train);

}  // namespace addnorm::model
