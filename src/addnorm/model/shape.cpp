#include "addnorm/model/shape.h"

#include <cmath>
#include <limits>

#include "addnorm/base/text.h"
#include "addnorm/formula/check.h"

namespace addnorm::model {
namespace {

using graph::StackSide;

template <class Enum>
Enum word(const std::string& text, std::initializer_list<std::pair<const char*, Enum>> words) {
  for (const auto& [candidate, meaning] : words) {
    if (text == candidate) return meaning;
  }
  fail_input("model", "expected a known word, got \"" + text + "\"");
}

bool is_pair(const graph::ModelShape& shape) {
  return shape.kind == graph::ModelKind::encoder_decoder;
}

// The value of an expression without t, the same in every stack.
double evaluate_everywhere(const std::string& path, const std::string& text,
                           const graph::ModelShape& shape, const Report& report) {
  const formula::ExprPtr expression = formula::parse_expression(text);
  std::vector<StackSide> sides = {StackSide::single};
  if (is_pair(shape)) sides = {StackSide::encoder, StackSide::decoder};
  std::optional<double> value;
  for (const StackSide side : sides) {
    const auto here = formula::evaluate(*expression, scalars(shape, side));
    if (!here) {
      report(path, "expected an expression in L S d head_dim ffn N M, got `" + text + "`");
      return 1;
    }
    if (!std::isfinite(*here)) {
      report(path, "expected a finite number, got " + shortest(*here) + " from `" + text + "`");
      return 1;
    }
    if (value && *value != *here) {
      report(path, "expected one value for both stacks, got " + shortest(*value) + " and " +
                       shortest(*here) + " from `" + text + "`; try N and M for L");
      return 1;
    }
    value = here;
  }
  return *value;
}

}  // namespace

std::vector<StackKey> stack_keys(const std::string& kind) {
  if (kind == "encoder-decoder") {
    return {{StackSide::encoder, formula::Stack::pair_encoder, "model.encoder_wiring"},
            {StackSide::decoder, formula::Stack::pair_decoder, "model.decoder_wiring"}};
  }
  return {{StackSide::single, kind == "encoder" ? formula::Stack::encoder : formula::Stack::decoder,
           "model.wiring"}};
}

graph::StackProgram& program_of(graph::ModelShape* shape, StackSide side) {
  return side == StackSide::encoder ? shape->encoder : shape->decoder;
}

graph::ModelShape sizes(const ModelSection& model) {
  graph::ModelShape shape;
  using graph::Activation;
  using graph::ModelKind;
  using graph::Positions;
  using nodes::NormKind;
  shape.kind = word<ModelKind>(model.kind, {{"decoder", ModelKind::decoder},
                                            {"encoder", ModelKind::encoder},
                                            {"encoder-decoder", ModelKind::encoder_decoder}});
  shape.encoder.layers = model.encoder_layers;
  shape.decoder.layers = is_pair(shape) ? model.decoder_layers : model.layers;
  shape.width = model.width;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads;
  shape.head_dim = model.head_dim;
  shape.ffn = model.ffn;
  shape.activation = word<Activation>(model.activation, {{"gelu", Activation::gelu},
                                                         {"gelu_tanh", Activation::gelu_tanh},
                                                         {"relu", Activation::relu},
                                                         {"relu2", Activation::relu2},
                                                         {"silu", Activation::silu},
                                                         {"swiglu", Activation::swiglu},
                                                         {"geglu", Activation::geglu},
                                                         {"geglu_tanh", Activation::geglu_tanh},
                                                         {"reglu", Activation::reglu}});
  shape.positions = word<Positions>(model.positions, {{"learned", Positions::learned},
                                                      {"sinusoidal", Positions::sinusoidal},
                                                      {"rope", Positions::rope},
                                                      {"alibi", Positions::alibi},
                                                      {"t5", Positions::t5},
                                                      {"none", Positions::none}});
  shape.norm = word<NormKind>(model.norm, {{"layernorm", NormKind::layernorm},
                                           {"rmsnorm", NormKind::rmsnorm},
                                           {"scalenorm", NormKind::scalenorm},
                                           {"l2norm", NormKind::l2norm},
                                           {"dyt", NormKind::dyt},
                                           {"derf", NormKind::derf}});
  shape.norm_eps = model.norm_eps;
  shape.norm_bias = model.norm_bias;
  shape.norm_unit_offset = model.norm_unit_offset;
  for (const graph::Role role : graph::all_roles()) {
    for (const std::string& name : model.bias) {
      if (name == graph::role_name(role)) shape.bias_roles.insert(role);
    }
  }
  shape.head_bias = model.head_bias;
  shape.tie_embeddings = model.tie_embeddings;
  shape.share_embeddings = model.share_embeddings;
  shape.attn_softcap = model.attn_softcap;
  shape.logit_softcap = model.logit_softcap;
  shape.rope_interleaved = model.rope_layout == "interleaved";
  shape.rope_base = model.rope_base;
  shape.rotary_dim = model.rotary_dim;
  shape.relative_buckets = model.relative_buckets;
  shape.relative_distance = model.relative_distance;
  shape.vocab = model.vocab;
  shape.context = model.context;
  shape.dropout = model.dropout;
  return shape;
}

formula::Scalars scalars(const graph::ModelShape& shape, StackSide side) {
  const graph::StackProgram& own = side == StackSide::encoder ? shape.encoder : shape.decoder;
  const formula::Context context = graph::context_of(shape, side);
  const formula::Scalars known = formula::layout(own.program, context).scalars;
  formula::Scalars result;
  for (const char* name : {"L", "S", "d", "head_dim", "N", "M"}) {
    const auto found = known.find(name);
    if (found != known.end()) result[name] = found->second;
  }
  result["ffn"] = static_cast<double>(shape.ffn);
  return result;
}

void evaluate_scales(const ModelSection& model, graph::ModelShape* shape, const Report& report) {
  shape->embed_scale = evaluate_everywhere("model.embed_scale", model.embed_scale, *shape, report);
  shape->logit_scale = evaluate_everywhere("model.logit_scale", model.logit_scale, *shape, report);

  const formula::ExprPtr scale = formula::parse_expression(model.attn_scale);
  for (const StackKey& key : stack_keys(model.kind)) {
    formula::Scalars names = scalars(*shape, key.side);
    for (const double t : {1.0, std::numeric_limits<double>::infinity()}) {
      names["t"] = t;
      const auto value = formula::evaluate(*scale, names);
      if (!value || !std::isfinite(*value)) {
        report("model.attn_scale", "expected a finite number at every t, got " +
                                       (value ? shortest(*value) : std::string("none")) +
                                       " from `" + model.attn_scale +
                                       "` at t = " + (t == 1 ? "1" : "infinity"));
        return;
      }
    }
  }
  // Names that are the same for every stack; lowering knows the others.
  formula::Scalars names = scalars(*shape, stack_keys(model.kind).back().side);
  if (is_pair(*shape)) {
    names.erase("L");
    names.erase("S");
  }
  shape->attn_scale = formula::fold(*scale, names);
}

namespace {

double role_factor(const std::map<std::string, std::string>& table, const std::string& name,
                   double standard, const graph::ModelShape& shape, graph::Role role,
                   StackSide side, double t) {
  const auto found = table.find(graph::role_name(role));
  if (found == table.end()) return standard;
  // What belongs to no stack of a pair (a shared table) is the decoder's.
  if (is_pair(shape) && side == StackSide::single) side = StackSide::decoder;
  formula::Scalars names = scalars(shape, side);
  names["t"] = t;
  const auto value = formula::evaluate(*formula::parse_expression(found->second), names);
  if (!value || !(*value >= 0) || !std::isfinite(*value)) {
    fail_input(name + "." + found->first, "expected a finite number of at least 0, got " +
                                              (value ? shortest(*value) : std::string("none")) +
                                              " from `" + found->second +
                                              "` at t = " + shortest(t));
  }
  return *value;
}

}  // namespace

double lr_scale(const TrainSection& train, const graph::ModelShape& shape, graph::Role role,
                StackSide side, double t) {
  return role_factor(train.lr_scale, "train.lr_scale", 1, shape, role, side, t);
}

double decay_scale(const TrainSection& train, const graph::ModelShape& shape, graph::Role role,
                   StackSide side, double t) {
  const bool free =
      role == graph::Role::norm || role == graph::Role::bias || role == graph::Role::param;
  return role_factor(train.decay, "train.decay", free ? 0 : 1, shape, role, side, t);
}

graph::ModelShape shape(const Specification& specification, const formula::Catalogue& catalogue,
                        Findings* findings) {
  const ModelSection& model = specification.model;
  Findings errors;
  if (model.vocab <= 0) {
    errors.push_back({Level::error, "model.vocab", "expected the number of tokens, got nothing"});
  }
  graph::ModelShape result = sizes(model);
  for (const StackKey& key : stack_keys(model.kind)) {
    const std::string& own = key.side == StackSide::encoder   ? model.encoder_wiring
                             : key.side == StackSide::decoder ? model.decoder_wiring
                                                              : model.wiring;
    const std::string& text = own.empty() ? model.wiring : own;
    const formula::Wiring wiring = formula::resolve(text, key.stack, catalogue);
    graph::StackProgram& program = program_of(&result, key.side);
    program.program = wiring.program;
    program.let_overrides = wiring.let_overrides;
    for (Finding found : formula::check(wiring.program, graph::context_of(result, key.side))) {
      if (found.where.starts_with("formula")) found.where = found.where.substr(7);
      found.where = key.wiring + found.where;
      if (found.level == Level::error) {
        errors.push_back(found);
      } else if (findings != nullptr) {
        findings->push_back(found);
      }
    }
  }
  if (errors.empty()) {
    evaluate_scales(model, &result, [&](const std::string& path, const std::string& message) {
      errors.push_back({Level::error, path, message});
    });
  }
  if (!errors.empty()) throw Error(errors);
  return result;
}

}  // namespace addnorm::model
