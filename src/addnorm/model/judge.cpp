// What keys mean together: defaults that follow from other keys, and combinations that cannot be.
#include <algorithm>
#include <cmath>

#include "addnorm/base/text.h"
#include "addnorm/model/init_rule.h"
#include "addnorm/model/loader.h"

namespace addnorm::model {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

void default_size(Loader* loader, const std::string& path, int64_t* to, int64_t value) {
  if (loader->given(path)) return;
  *to = value;
  loader->spec.sources[path] = Source::default_value;
}

void judge_heads(Loader* loader) {
  ModelSection& m = loader->spec.model;
  const bool width = m.width > 0, heads = m.heads > 0;
  if (width) default_size(loader, "model.ffn", &m.ffn, 4 * m.width);
  if (heads) default_size(loader, "model.kv_heads", &m.kv_heads, m.heads);
  if (width && heads) {
    if (!loader->given("model.head_dim") && m.width % m.heads != 0) {
      int64_t near = m.heads;
      while (m.width % near != 0) --near;
      loader->problem("model.heads", "expected a divisor of width " + number(m.width) + ", got " +
                                         number(m.heads) + "; try " + number(near) +
                                         ", or set head_dim");
    } else {
      default_size(loader, "model.head_dim", &m.head_dim, m.width / m.heads);
    }
  }
  if (heads && m.kv_heads > 0 && m.heads % m.kv_heads != 0) {
    loader->problem("model.kv_heads", "expected a divisor of heads " + number(m.heads) + ", got " +
                                          number(m.kv_heads));
  }
}

void judge_positions(Loader* loader) {
  ModelSection& m = loader->spec.model;
  const bool rope = m.positions == "rope", t5 = m.positions == "t5";
  if (m.rotary_dim % 2 != 0) {
    loader->problem("model.rotary_dim", "expected an even number, got " + number(m.rotary_dim));
  }
  if (m.head_dim > 0 && m.rotary_dim > m.head_dim) {
    loader->problem("model.rotary_dim", "expected at most head_dim = " + number(m.head_dim) +
                                            ", got " + number(m.rotary_dim));
  }
  if (rope && m.head_dim > 0) {
    if (!loader->given("model.rotary_dim") && m.head_dim % 2 != 0) {
      loader->problem("model.positions", "expected an even head_dim for rope, got " +
                                             number(m.head_dim) +
                                             "; try rotary_dim = " + number(m.head_dim - 1));
    }
    default_size(loader, "model.rotary_dim", &m.rotary_dim, m.head_dim);
  }
  if (t5) {
    const bool causal_only = m.kind == "decoder";
    if (!causal_only && m.relative_buckets % 2 != 0) {
      loader->problem("model.relative_buckets",
                      "expected an even number where an encoder looks both ways, got " +
                          number(m.relative_buckets));
    }
    const int64_t exact = m.kind == "encoder" ? m.relative_buckets / 4 : m.relative_buckets / 2;
    if (m.relative_distance <= exact) {
      loader->problem("model.relative_distance",
                      "expected more than " + number(exact) + ", the distances that " +
                          number(m.relative_buckets) + " buckets keep apart, got " +
                          number(m.relative_distance));
    }
  }
  const auto idle = [&](const std::string& path, const std::string& needed, bool used) {
    if (!used && loader->set_otherwise(path)) {
      loader->note(Level::warning, path, "no effect: it belongs to " + needed);
    }
  };
  for (const char* key : {"rope_layout", "rope_base", "rotary_dim"}) {
    idle(std::string("model.") + key, "positions = \"rope\"", rope);
  }
  for (const char* key : {"relative_buckets", "relative_distance"}) {
    idle(std::string("model.") + key, "positions = \"t5\"", t5);
  }
}

void judge_kind(Loader* loader) {
  ModelSection& m = loader->spec.model;
  if (m.kind.empty()) return;
  const bool pair = m.kind == "encoder-decoder";
  const auto refuse = [&](const std::string& path, const std::string& instead) {
    if (loader->given(path)) {
      loader->problem(path, "no key of kind = \"" + m.kind + "\"; try " + instead);
    }
  };
  if (pair) {
    refuse("model.layers", "encoder_layers and decoder_layers");
    refuse("model.wiring_name", "encoder_wiring_name and decoder_wiring_name");
    m.layers = 0;
  } else {
    refuse("model.encoder_layers", "layers");
    refuse("model.decoder_layers", "layers");
    for (const char* key : {"encoder_wiring", "decoder_wiring"}) {
      refuse(std::string("model.") + key, "wiring");
      refuse(std::string("model.") + key + "_name", "wiring_name");
    }
    if (m.share_embeddings) {
      loader->problem("model.share_embeddings", "expected kind = \"encoder-decoder\", got \"" +
                                                    m.kind + "\": there is one stack only");
    }
    refuse("data.target", "source alone");
  }
  for (const auto& [path, entry] : loader->entries()) {
    if (!pair && (path.starts_with("init.encoder.") || path.starts_with("init.decoder."))) {
      loader->problem(path, "expected no stack before a role of a single stack, got one; try `" +
                                path.substr(13) + "`");
    }
  }
  if (m.kind != "encoder" && loader->set_otherwise("data.mask_rate")) {
    loader->note(Level::warning, "data.mask_rate", "no effect: it belongs to kind = \"encoder\"");
  }
}

void judge_vocabulary(Loader* loader) {
  Specification& spec = loader->spec;
  if (spec.model.kind.empty() || !loader->good("data.tokenizer")) return;
  const int64_t size = spec.model.kind == "decoder" ? 256 : 260;
  const bool bytes = spec.data.tokenizer == "bytes";
  if (loader->needs == Needs::model) {
    if (loader->given("model.vocab")) return;  // no text need fit to it
    const bool bare =
        std::none_of(loader->entries().begin(), loader->entries().end(),
                     [](const auto& entry) { return entry.first.starts_with("data."); });
    if (bare || !bytes) {
      loader->problem(
          "model.vocab",
          "expected a whole number of at least 1, got nothing: " +
              std::string(bare ? "the key is required where no [data] says how the text becomes "
                                 "tokens; try `vocab = " +
                                     number(size) +
                                     "` under [model], the ids of tokenizer = \"bytes\""
                               : "with tokenizer = \"" + spec.data.tokenizer +
                                     "\" it depends on the text; try `vocab = N` under [model]"));
      return;
    }
  }
  if (!bytes) return;
  default_size(loader, "model.vocab", &spec.model.vocab, size);
  if (loader->good("model.vocab") && spec.model.vocab < size) {
    loader->problem("model.vocab", "expected at least " + number(size) +
                                       ", the ids of tokenizer = \"bytes\", got " +
                                       number(spec.model.vocab));
  }
}

void judge_schedule(Loader* loader) {
  const TrainSection& t = loader->spec.train;
  const auto idle = [&](const std::string& path, bool used, const std::string& needed) {
    if (!used && loader->set_otherwise(path)) {
      loader->note(Level::warning, path, "no effect: it belongs to " + needed);
    }
  };
  const bool sgd = t.optimizer == "sgd";
  idle("train.momentum", sgd, "optimizer = \"sgd\"");
  for (const char* key : {"beta1", "beta2", "eps"}) {
    idle(std::string("train.") + key, !sgd, "optimizer = \"adam\" or \"adamw\"");
  }
  idle("train.decay_steps", t.schedule == "wsd", "schedule = \"wsd\"");
  idle("train.min_lr", t.schedule != "constant", "a falling schedule");

  if (loader->given("train.lr") && loader->good("train.lr") && loader->good("train.min_lr") &&
      t.min_lr > t.lr) {
    loader->problem("train.min_lr",
                    "expected at most lr = " + shortest(t.lr) + ", got " + shortest(t.min_lr));
  }
  if (t.steps <= 0 || !loader->good("train.warmup")) return;
  const int64_t warmup = warmup_steps(t);
  if (warmup >= t.steps) {
    loader->note(Level::warning, "train.warmup",
                 "warmup of " + number(warmup) + " updates in a run of " + number(t.steps) +
                     ": the largest learning rate reached is " +
                     shortest(t.lr * static_cast<double>(t.steps) / static_cast<double>(warmup)) +
                     ", not " + shortest(t.lr));
  } else if (t.schedule == "wsd" && loader->good("train.decay_steps") &&
             warmup + decay_steps(t) > t.steps) {
    loader->note(Level::warning, "train.decay_steps",
                 "warmup of " + number(warmup) + " and decay of " + number(decay_steps(t)) +
                     " updates do not fit into " + number(t.steps));
  }
}

// Names only; values need the sizes, see shape().
void judge_expressions(Loader* loader) {
  const auto judge = [&](const std::string& path, const std::string& text, bool schedule) {
    if (!loader->given(path) || !loader->good(path)) return;
    std::vector<std::string> names = {"L", "S", "d", "head_dim", "ffn", "N", "M"};
    if (schedule) names.emplace_back("t");
    const formula::ExprPtr expression = formula::parse_expression(text);
    for (const std::string& wrong : expression_problems(*expression, names)) {
      loader->problem(path, wrong);
    }
  };
  const ModelSection& m = loader->spec.model;
  judge("model.embed_scale", m.embed_scale, false);
  judge("model.attn_scale", m.attn_scale, true);
  judge("model.logit_scale", m.logit_scale, false);
  for (const auto& [role, text] : loader->spec.train.lr_scale) {
    judge("train.lr_scale." + role, text, true);
  }
  for (const auto& [role, text] : loader->spec.train.decay)
    judge("train.decay." + role, text, true);
  for (const auto& [role, text] : loader->spec.init) {
    const std::string path = "init." + role;
    if (!loader->given(path) || !loader->good(path)) continue;
    const std::vector<std::string> names = {"L", "S", "d", "head_dim", "ffn",
                                            "N", "M", "l", "fan_in",   "fan_out"};
    for (const std::string& wrong : expression_problems(*parse_rule(text).argument, names)) {
      loader->problem(path, wrong);
    }
  }
}

}  // namespace

void judge_together(Loader* loader) {
  judge_heads(loader);
  judge_positions(loader);
  judge_kind(loader);
  judge_vocabulary(loader);
  judge_schedule(loader);
  judge_expressions(loader);
}

}  // namespace addnorm::model
