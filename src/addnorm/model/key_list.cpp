// The list of keys itself; those of [model] are in key_list_model.cpp.
#include "addnorm/model/init_rule.h"
#include "addnorm/model/keys.h"
#include "addnorm/model/keys_access.h"

namespace addnorm::model {
namespace {

using T = KeyType;
using R = Required;
using E = Effect;

constexpr double many = 1e9;

template <class Member>
Key data_key(Key key, Member DataSection::* member) {
  key.path = "data." + key.path;
  return bound(std::move(key), &Specification::data, member);
}
template <class Member>
Key train_key(Key key, Member TrainSection::* member) {
  key.path = "train." + key.path;
  return bound(std::move(key), &Specification::train, member);
}

struct RoleText {
  graph::Role role;
  const char* help;
  const char* second;
  std::vector<std::pair<std::string, std::string>> with;
};

std::vector<RoleText> role_texts() {
  using graph::Role;
  const std::vector<std::pair<std::string, std::string>> pair = {
      {"model.kind", "\"encoder-decoder\""}};
  return {
      {Role::embed, "token tables; a tied head follows", "normal(0.5)", {}},
      {Role::positions, "learned positions and the t5 table", "normal(0.01)", {}},
      {Role::q, "query matrices", "xavier_normal(1)", {}},
      {Role::k, "key matrices", "xavier_uniform(1)", {}},
      {Role::v, "value matrices", "uniform(0.1)", {}},
      {Role::attn_out, "output matrices of attention", "normal(0.02/sqrt(2*L))", {}},
      {Role::ffn_in, "first matrices of the feed-forward branch", "trunc_normal(0.05)", {}},
      {Role::ffn_gate, "gate matrices", "normal(1/sqrt(d))", {{"model.activation", "\"swiglu\""}}},
      {Role::ffn_out, "output matrices of the feed-forward branch", "zeros", {}},
      {Role::cross_q, "query matrices of cross-attention", "normal(0.1)", pair},
      {Role::cross_k, "key matrices of cross-attention", "normal(0.1)", pair},
      {Role::cross_v, "value matrices of cross-attention", "normal(0.1)", pair},
      {Role::cross_out, "output matrices of cross-attention", "zeros", pair},
      {Role::head, "the untied head", "zeros", {{"model.tie_embeddings", "false"}}},
      {Role::linear,
       "`linear(..)` of the formula",
       "normal(0.1)",
       {{"model.wiring", "\"x = x + linear(f(norm(x))); out = norm(x)\""}}},
      {Role::norm, "gains of norms", "constant(0.5)", {}},
      {Role::param,
       "`param(..)`, alpha and shift, and `heads=`",
       "constant(0.5)",
       {{"model.wiring", "\"x = x + param(1)*f(norm(x)); out = norm(x)\""}}},
      {Role::bias, "biases of linear layers and norms", "0.5", {}},
  };
}

void add_init(std::vector<Key>* to) {
  const auto add = [to](Key key) {
    key.type = T::rule;
    key.effect = E::init;
    key.write = [](Specification& spec, const TomlValue& value, const std::string& path) {
      spec.init[path.substr(5)] = value.text;
    };
    key.read = [role = key.path.substr(5)](const Specification& spec) {
      const auto found = spec.init.find(role);
      return found == spec.init.end() ? "" : quoted(found->second);
    };
    to->push_back(std::move(key));
  };
  add({.path = "init.default",
       .standard = "\"normal(0.02)\"",
       .help = "all matrices and embeddings whose role is not set; replaces a published "
               "initialization as a whole",
       .second = "\"xavier_normal(1)\""});
  for (const RoleText& text : role_texts()) {
    if (text.role == graph::Role::bias) continue;
    const bool kept = text.role == graph::Role::norm || text.role == graph::Role::param;
    add({.path = std::string("init.") + graph::role_name(text.role),
         .otherwise = kept ? "their own start values" : "default",
         .listing = quoted(text.second),
         .help = text.help,
         .second = quoted(text.second),
         .with = text.with});
  }
}

void add_data(std::vector<Key>* to) {
  using D = DataSection;
  const auto add = [to](Key key, auto member) {
    key.effect = E::data;
    to->push_back(data_key(std::move(key), member));
  };
  add({.path = "source",
       .type = T::texts,
       .listing = "[\"corpus.txt\"]",
       .required = R::training,
       .help = "files or folders (text files below it in byte order of their paths), as seen from "
               "the current directory; encoder-decoder: source lines, or one tab-separated file",
       .second = "[\"a.txt\", \"b.txt\"]"},
      &D::source);
  add({.path = "target",
       .type = T::texts,
       .otherwise = "the second column of source",
       .listing = "[\"target.txt\"]",
       .help = "encoder-decoder: target lines beside source's",
       .second = "\"target.txt\"",
       .with = {{"model.kind", "\"encoder-decoder\""}}},
      &D::target);
  add({.path = "tokenizer",
       .standard = "\"bytes\"",
       .words = {"bytes", "chars"},
       .help = "bytes: ids 0 to 255; chars: the sorted code points of the training part; encoders "
               "and pairs add pad, bos, eos and mask",
       .second = "\"chars\""},
      &D::tokenizer);
  add({.path = "validation",
       .type = T::share_or_file,
       .standard = "0.1",
       .low = 0,
       .high = 1,
       .high_open = true,
       .help = "share of the tokens (pairs: of the lines) held out at the end, rounded down; or a "
               "file",
       .second = "0.25"},
      &D::validation);
  add({.path = "encoding",
       .standard = "\"utf-8\"",
       .words = {"utf-8", "bytes", "replace"},
       .help = "utf-8: an invalid byte is an error with its offset; bytes: not looked at; replace: "
               "U+FFFD",
       .second = "\"bytes\""},
      &D::encoding);
  add({.path = "documents",
       .standard = "\"stream\"",
       .words = {"stream", "lines"},
       .help =
           "stream: all text is one stream; lines: each line is a document in a row of its own, "
           "padded, masked and cut at context",
       .second = "\"lines\""},
      &D::documents);
  add({.path = "sampling",
       .standard = "\"epoch\"",
       .words = {"epoch", "random"},
       .help = "epoch: consecutive windows in an order shuffled anew each epoch; random: each row "
               "starts anywhere",
       .second = "\"random\""},
      &D::sampling);
  add({.path = "mask_rate",
       .type = T::number,
       .standard = "0.15",
       .low = 0,
       .high = 1,
       .low_open = true,
       .help = "encoder: share of positions predicted; 80 % become the mask id, 10 % a random id, "
               "10 % stay",
       .second = "0.3",
       .with = {{"model.kind", "\"encoder\""}}},
      &D::mask_rate);
}

void add_train(std::vector<Key>* to) {
  using S = TrainSection;
  const auto add = [to](Key key, auto member) {
    key.effect = E::training;
    to->push_back(train_key(std::move(key), member));
  };
  const std::vector<std::pair<std::string, std::string>> sgd = {{"train.optimizer", "\"sgd\""}};
  add({.path = "steps",
       .type = T::integer,
       .listing = "1000",
       .required = R::training,
       .low = 1,
       .high = 1e12,
       .help = "updates",
       .second = "7"},
      &S::steps);
  add({.path = "batch",
       .type = T::integer,
       .standard = "16",
       .low = 1,
       .high = many,
       .help = "sequences per micro-batch",
       .second = "3"},
      &S::batch);
  add({.path = "accumulate",
       .type = T::integer,
       .standard = "1",
       .low = 1,
       .high = many,
       .help = "micro-batches per update",
       .second = "2"},
      &S::accumulate);
  add({.path = "lr",
       .type = T::number,
       .listing = "1e-3",
       .required = R::training,
       .low = 0,
       .help = "learning rate at its top",
       .second = "0.01"},
      &S::lr);
  add({.path = "min_lr",
       .type = T::number,
       .standard = "0",
       .low = 0,
       .help = "learning rate at the end of a falling schedule",
       .second = "1e-4"},
      &S::min_lr);
  add({.path = "schedule",
       .standard = "\"cosine\"",
       .words = {"constant", "linear", "cosine", "inverse_sqrt", "wsd"},
       .help = "after the warmup; wsd: constant, then linear over the last decay_steps",
       .second = "\"linear\""},
      &S::schedule);
  add({.path = "decay_steps",
       .type = T::count_or_share,
       .standard = "\"20%\"",
       .help = "wsd: updates of the falling end, or a share of steps (rounded up)",
       .second = "2",
       .with = {{"train.schedule", "\"wsd\""}}},
      &S::decay_steps);
  add({.path = "warmup",
       .type = T::count_or_share,
       .standard = "0",
       .help = "updates until lr is reached, or a share of steps such as \"5%\" (rounded up)",
       .second = "\"50%\""},
      &S::warmup);
  add({.path = "optimizer",
       .standard = "\"adamw\"",
       .words = {"adam", "adamw", "sgd"},
       .help = "adamw: decay beside the gradient; adam: decay as L2; sgd with momentum",
       .second = "\"sgd\""},
      &S::optimizer);
  add({.path = "beta1",
       .type = T::number,
       .standard = "0.9",
       .low = 0,
       .high = 1,
       .high_open = true,
       .help = "adam, adamw: decay of the mean",
       .second = "0.5"},
      &S::beta1);
  add({.path = "beta2",
       .type = T::number,
       .standard = "0.95",
       .low = 0,
       .high = 1,
       .high_open = true,
       .help = "adam, adamw: decay of the mean square",
       .second = "0.5"},
      &S::beta2);
  add({.path = "eps",
       .type = T::number,
       .standard = "1e-8",
       .low = 0,
       .low_open = true,
       .help = "adam, adamw: added to the root of the mean square",
       .second = "0.1"},
      &S::eps);
  add({.path = "weight_decay",
       .type = T::number,
       .otherwise = "0.1 for adamw, else 0",
       .listing = "0.1",
       .low = 0,
       .help = "times lr and [train.decay]",
       .second = "0.5"},
      &S::weight_decay);
  add({.path = "momentum",
       .type = T::number,
       .standard = "0.9",
       .low = 0,
       .high = 1,
       .high_open = true,
       .help = "sgd",
       .second = "0.5",
       .with = sgd},
      &S::momentum);
  add({.path = "clip",
       .type = T::number,
       .standard = "1",
       .low = 0,
       .help = "largest global gradient norm, summed in double; 0: off",
       .second = "0.01"},
      &S::clip);
  add({.path = "seed",
       .type = T::integer,
       .standard = "1",
       .low = 0,
       .high = 9e18,
       .help = "of initialization, batches and dropout",
       .second = "2"},
      &S::seed);
  add({.path = "threads",
       .type = T::integer,
       .standard = "0",
       .low = 0,
       .high = 4096,
       .help = "0: all that are allowed",
       .second = "1"},
      &S::threads);
  add({.path = "label_smoothing",
       .type = T::number,
       .standard = "0",
       .low = 0,
       .high = 1,
       .high_open = true,
       .help = "share e of the loss: (1-e)*cross-entropy + e*mean of -log p",
       .second = "0.1"},
      &S::label_smoothing);
  add({.path = "z_loss",
       .type = T::number,
       .standard = "0",
       .low = 0,
       .help = "factor of (log Z)^2 in the loss",
       .second = "0.01"},
      &S::z_loss);
  add({.path = "on_nonfinite",
       .standard = "\"stop\"",
       .words = {"stop", "skip"},
       .help = "what a non-finite step does; skip: counted, 10 in a row stop the run",
       .second = "\"skip\""},
      &S::on_nonfinite);
  add({.path = "eval_every",
       .type = T::integer,
       .standard = "0",
       .low = 0,
       .high = 1e12,
       .help = "updates between evaluations; 0: only at the end",
       .second = "2"},
      &S::eval_every);
  add({.path = "checkpoint_every",
       .type = T::integer,
       .standard = "0",
       .low = 0,
       .high = 1e12,
       .help = "updates between checkpoints; 0: only at the end",
       .second = "2"},
      &S::checkpoint_every);
  add({.path = "diag_every",
       .type = T::integer,
       .standard = "0",
       .low = 0,
       .high = 1e12,
       .help = "updates between measurements by layer and role, the first one too; 0: only at the "
               "end",
       .second = "2"},
      &S::diag_every);
  add({.path = "eval_tokens",
       .type = T::integer,
       .standard = "0",
       .low = 0,
       .high = 1e12,
       .help = "targets of an evaluation during the run; 0: all",
       .second = "64"},
      &S::eval_tokens);
}

void add_factors(std::vector<Key>* to, const std::string& table,
                 std::map<std::string, std::string> TrainSection::* member) {
  for (const RoleText& text : role_texts()) {
    const std::string role = graph::role_name(text.role);
    const bool free =
        member == &TrainSection::decay && (role == "norm" || role == "bias" || role == "param");
    Key key{.path = "train." + table + "." + role,
            .type = T::expression,
            .otherwise = free ? "0" : "1",
            .listing = "0.5",
            .help = text.help,
            .second = "0.5",
            .with = text.with,
            .effect = E::training};
    key.write = [=](Specification& spec, const TomlValue& value, const std::string&) {
      (spec.train.*member)[role] =
          value.kind == TomlValue::Kind::text ? value.text : value.describe();
    };
    key.read = [=](const Specification& spec) {
      const auto found = (spec.train.*member).find(role);
      return found == (spec.train.*member).end() ? "" : number_or_quoted(found->second);
    };
    to->push_back(std::move(key));
  }
}

}  // namespace

std::vector<std::string> linear_roles() {
  std::vector<std::string> roles;
  for (const graph::Role role : graph::all_roles()) {
    switch (role) {
      case graph::Role::embed:
      case graph::Role::positions:
      case graph::Role::head:
      case graph::Role::norm:
      case graph::Role::param:
      case graph::Role::bias:
        break;
      default:
        roles.emplace_back(graph::role_name(role));
    }
  }
  return roles;
}

const std::vector<Key>& keys() {
  static const std::vector<Key> all = [] {
    std::vector<Key> list;
    add_model_keys(&list);
    add_init(&list);
    add_data(&list);
    add_train(&list);
    add_factors(&list, "lr_scale", &TrainSection::lr_scale);
    add_factors(&list, "decay", &TrainSection::decay);
    return list;
  }();
  return all;
}

std::string section_help(const std::string& section) {
  if (section == "model") {
    return "The architecture. Expressions may use L (layers of the stack), S (its branch calls), d "
           "(width), head_dim, ffn, N and M (encoder and decoder layers of a pair).";
  }
  if (section == "init") {
    return "Rules by role: normal(std), trunc_normal(std) (redrawn beyond 2 std), uniform(bound), "
           "xavier_uniform(gain) (bound gain*sqrt(6/(fan_in+fan_out))), xavier_normal(gain) (std "
           "gain*sqrt(2/(fan_in+fan_out))), constant(v), zeros. An absent section means the "
           "wiring's published initialization, else the default; a role set here replaces that "
           "role's rule only, `default` all of them. `encoder.` or `decoder.` before a role limits "
           "it to that stack of a pair. Expressions may also use l (the layer, from 1), fan_in and "
           "fan_out (columns and rows of the matrix). Biases start at 0.";
  }
  if (section == "data") return "What is read. Only verbs that train or evaluate need it.";
  if (section == "train") return "How it is trained. Only verbs that train need it.";
  if (section == "train.lr_scale") {
    return "Factors on the learning rate per role: numbers, or expressions in L S d head_dim ffn N "
           "M and t, the number of the update.";
  }
  return "Factors on weight_decay per role: numbers, or expressions in L S d head_dim ffn N M and "
         "t, the number of the update.";
}

}  // namespace addnorm::model
