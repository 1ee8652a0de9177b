// The keys of [model].
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
}  // namespace

void add_model_keys(std::vector<Key>* to) {
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

}  // namespace addnorm::model
