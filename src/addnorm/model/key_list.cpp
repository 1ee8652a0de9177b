// The list of keys itself.
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
Key model_key(Key key, Member ModelSection::* member) {
  key.path = "model." + key.path;
  return bound(std::move(key), &Specification::model, member);
}
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

void add_model(std::vector<Key>* to) {
  using M = ModelSection;
  const auto add = [to](Key key, auto member) { to->push_back(model_key(std::move(key), member)); };
  const std::vector<std::pair<std::string, std::string>> pair = {
      {"model.kind", "\"encoder-decoder\""}};

  add({.path = "kind",
       .listing = "\"decoder\"",
       .required = R::always,
       .words = {"decoder", "encoder", "encoder-decoder"},
       .help = "decoder: causal language model; encoder: masked-token prediction; "
               "encoder-decoder: pairs",
       .second = "\"encoder\"",
       .effect = E::graph},
      &M::kind);
  add({.path = "layers",
       .type = T::integer,
       .listing = "6",
       .required = R::single,
       .low = 1,
       .high = 10000,
       .help = "layers of a single stack",
       .second = "3"},
      &M::layers);
  add({.path = "encoder_layers",
       .type = T::integer,
       .listing = "6",
       .required = R::pair,
       .low = 1,
       .high = 10000,
       .help = "layers of the encoder of a pair (N)",
       .second = "3",
       .with = pair},
      &M::encoder_layers);
  add({.path = "decoder_layers",
       .type = T::integer,
       .listing = "6",
       .required = R::pair,
       .low = 1,
       .high = 10000,
       .help = "layers of the decoder of a pair (M)",
       .second = "3",
       .with = pair},
      &M::decoder_layers);
  add({.path = "width",
       .type = T::integer,
       .listing = "256",
       .required = R::always,
       .low = 1,
       .high = many,
       .help = "width d of the residual stream",
       .second = "32"},
      &M::width);
  add({.path = "heads",
       .type = T::integer,
       .listing = "4",
       .required = R::always,
       .low = 1,
       .high = many,
       .help = "attention heads; divides width unless head_dim is given",
       .second = "2",
       .effect = E::graph},
      &M::heads);
  add({.path = "kv_heads",
       .type = T::integer,
       .otherwise = "heads",
       .listing = "4",
       .low = 1,
       .high = many,
       .help = "key and value heads; divides heads, each serves consecutive query heads",
       .second = "2"},
      &M::kv_heads);
  add({.path = "head_dim",
       .type = T::integer,
       .otherwise = "width/heads",
       .listing = "64",
       .low = 1,
       .high = many,
       .help = "width of a head; q is [heads*head_dim, d], k and v are [kv_heads*head_dim, d]",
       .second = "8"},
      &M::head_dim);
  add({.path = "ffn",
       .type = T::integer,
       .otherwise = "4*width",
       .listing = "1024",
       .low = 1,
       .high = many,
       .help = "hidden width of the feed-forward branch",
       .second = "96"},
      &M::ffn);
  add({.path = "activation",
       .standard = "\"gelu\"",
       .words = {"gelu", "gelu_tanh", "relu", "relu2", "silu", "swiglu", "geglu", "geglu_tanh",
                 "reglu"},
       .help =
           "of the feed-forward branch; gelu and geglu are the exact ones (erf); swiglu, geglu, "
           "geglu_tanh and reglu are gated and add the matrix `gate`",
       .second = "\"swiglu\""},
      &M::activation);
  add({.path = "positions",
       .standard = "\"learned\"",
       .words = {"learned", "sinusoidal", "rope", "alibi", "t5", "none"},
       .help = "learned and sinusoidal are added to the scaled token embedding; rope, alibi and t5 "
               "act in self-attention",
       .second = "\"none\""},
      &M::positions);
  add({.path = "norm",
       .standard = "\"layernorm\"",
       .words = {"layernorm", "rmsnorm", "scalenorm", "l2norm", "dyt", "derf"},
       .help = "the kind that `norm(..)` means",
       .second = "\"rmsnorm\""},
      &M::norm);
  add({.path = "norm_eps",
       .type = T::number,
       .otherwise = "each kind's own",
       .listing = "1e-5",
       .low = 0,
       .help = "of every layernorm, rmsnorm and scalenorm without `eps=`; inside the square root "
               "(scalenorm: a lower clamp of the length)",
       .second = "0.01",
       .effect = E::graph},
      &M::norm_eps);
  add({.path = "norm_bias",
       .type = T::boolean,
       .standard = "true",
       .help = "whether layernorms without `bias=` have a bias",
       .second = "false"},
      &M::norm_bias);
  add({.path = "norm_unit_offset",
       .type = T::boolean,
       .standard = "false",
       .help = "true: layernorm, rmsnorm and scalenorm store gain - 1",
       .second = "true",
       .effect = E::graph},
      &M::norm_unit_offset);
  add({.path = "bias",
       .type = T::roles,
       .standard = "true",
       .words = linear_roles(),
       .help = "which linear layers have a bias (the head has its own key): true, false or a list "
               "of roles, e.g. [\"q\", \"k\", \"v\"]",
       .second = "[\"q\", \"ffn_in\"]"},
      &M::bias);
  add({.path = "head_bias",
       .type = T::boolean,
       .standard = "false",
       .help = "head.bias [vocab], added before logit_scale",
       .second = "true"},
      &M::head_bias);
  add({.path = "tie_embeddings",
       .type = T::boolean,
       .standard = "true",
       .help = "the head multiplies by the raw token table (in a pair the decoder's)",
       .second = "false"},
      &M::tie_embeddings);
  add({.path = "share_embeddings",
       .type = T::boolean,
       .standard = "false",
       .help = "pairs: one token table for both stacks, named embed.tokens.weight",
       .second = "true",
       .with = pair},
      &M::share_embeddings);
  add({.path = "embed_scale",
       .type = T::expression,
       .standard = "1",
       .help =
           "factor on the token embedding: a number or an expression in L S d head_dim ffn N M, "
           "e.g. \"sqrt(d)\"",
       .second = "\"sqrt(d)\"",
       .effect = E::graph},
      &M::embed_scale);
  add({.path = "attn_scale",
       .type = T::expression,
       .standard = "\"1/sqrt(head_dim)\"",
       .help = "factor on the attention scores; may read t",
       .second = "\"1/head_dim\"",
       .effect = E::graph},
      &M::attn_scale);
  add({.path = "logit_scale",
       .type = T::expression,
       .standard = "1",
       .help = "factor on the logits",
       .second = "0.5",
       .effect = E::graph},
      &M::logit_scale);
  add({.path = "attn_softcap",
       .type = T::number,
       .standard = "0",
       .low = 0,
       .help = "c > 0: scores become c*tanh(score/c) after attn_scale, before position biases and "
               "mask",
       .second = "5",
       .effect = E::graph},
      &M::attn_softcap);
  add({.path = "logit_softcap",
       .type = T::number,
       .standard = "0",
       .low = 0,
       .help = "c > 0: logits become c*tanh(logit/c) after logit_scale",
       .second = "5",
       .effect = E::graph},
      &M::logit_softcap);
  const std::vector<std::pair<std::string, std::string>> rope = {{"model.positions", "\"rope\""}};
  const std::vector<std::pair<std::string, std::string>> t5 = {{"model.positions", "\"t5\""}};
  add({.path = "rope_layout",
       .standard = "\"half\"",
       .words = {"half", "interleaved"},
       .help = "rope turns channels of the two halves against each other, or neighbours",
       .second = "\"interleaved\"",
       .with = rope,
       .effect = E::graph},
      &M::rope_layout);
  add({.path = "rope_base",
       .type = T::number,
       .standard = "10000",
       .low = 0,
       .low_open = true,
       .help = "rope turns channel pair i of r by p*base^(-2i/r)",
       .second = "500",
       .with = rope,
       .effect = E::graph},
      &M::rope_base);
  add({.path = "rotary_dim",
       .type = T::integer,
       .otherwise = "head_dim",
       .listing = "64",
       .low = 2,
       .high = many,
       .help = "channels of a head that rope turns, the first ones; even",
       .second = "8",
       .with = rope,
       .effect = E::graph},
      &M::rotary_dim);
  add({.path = "relative_buckets",
       .type = T::integer,
       .standard = "32",
       .low = 4,
       .high = many,
       .help = "t5: learned biases per head",
       .second = "16",
       .with = t5},
      &M::relative_buckets);
  add({.path = "relative_distance",
       .type = T::integer,
       .standard = "128",
       .low = 1,
       .high = many,
       .help = "t5: distance from which on all keys share a bucket",
       .second = "64",
       .with = t5,
       .effect = E::graph},
      &M::relative_distance);
  add({.path = "vocab",
       .type = T::integer,
       .otherwise = "the tokenizer's size",
       .listing = "256",
       .required = R::bare,
       .low = 1,
       .high = many,
       .help = "rows of the token table; required where no tokenizer decides it, in training the "
               "tokenizer's size or larger",
       .second = "300"},
      &M::vocab);
  add({.path = "context",
       .type = T::integer,
       .listing = "256",
       .required = R::always,
       .low = 1,
       .high = many,
       .help = "longest sequence; a longer one is an error",
       .second = "32"},
      &M::context);
  add({.path = "dropout",
       .type = T::number,
       .standard = "0",
       .low = 0,
       .high = 1,
       .high_open = true,
       .help = "rate; acts on every branch result, or where the formula says `drop(..)`",
       .second = "0.1",
       .effect = E::graph},
      &M::dropout);
  add({.path = "wiring",
       .listing = "\"pre-ln\"",
       .required = R::wiring,
       .help = "a catalogue name (`addnorm wirings`), possibly with values of its `let` names in "
               "parentheses, or a formula",
       .second = "\"x = norm(x + f(x))\"",
       .effect = E::graph},
      &M::wiring);
  add({.path = "encoder_wiring",
       .otherwise = "wiring",
       .listing = "\"x = x + f(norm(x)); out = norm(x)\"",
       .help = "pairs: of the encoder, where it differs",
       .second = "\"x = norm(x + f(x))\"",
       .with = pair,
       .effect = E::graph},
      &M::encoder_wiring);
  add({.path = "decoder_wiring",
       .otherwise = "wiring",
       .listing = "\"x = x + f(norm(x)); out = norm(x)\"",
       .help = "pairs: of the decoder, where it differs",
       .second = "\"x = norm(x + f(x))\"",
       .with = pair,
       .effect = E::graph},
      &M::decoder_wiring);
  add({.path = "wiring_name",
       .otherwise = "the name in wiring",
       .listing = "\"my-wiring\"",
       .help =
           "what a formula in `wiring` is called; written by runs, which keep the formula beside "
           "the name",
       .second = "\"my-wiring\"",
       .effect = E::loading},
      &M::wiring_name);
  add({.path = "encoder_wiring_name",
       .otherwise = "the name in encoder_wiring",
       .listing = "\"my-wiring\"",
       .help = "the same for encoder_wiring",
       .second = "\"my-wiring\"",
       .with = pair,
       .effect = E::loading},
      &M::encoder_wiring_name);
  add({.path = "decoder_wiring_name",
       .otherwise = "the name in decoder_wiring",
       .listing = "\"my-wiring\"",
       .help = "the same for decoder_wiring",
       .second = "\"my-wiring\"",
       .with = pair,
       .effect = E::loading},
      &M::decoder_wiring_name);
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
       .help = "updates between measurements by layer and role; 0: only at the end",
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
    add_model(&list);
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
           "M.";
  }
  return "Factors on weight_decay per role: numbers, or expressions in L S d head_dim ffn N M.";
}

}  // namespace addnorm::model
