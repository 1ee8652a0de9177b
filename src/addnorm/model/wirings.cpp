// What `wiring` names becomes text, and its published initialization becomes rules; programs are
// checked for the sizes of the model.
#include <algorithm>
#include <cmath>
#include <limits>

#include "addnorm/base/text.h"
#include "addnorm/formula/check.h"
#include "addnorm/model/init_rule.h"
#include "addnorm/model/loader.h"
#include "addnorm/model/shape.h"

namespace addnorm::model {
namespace {

using graph::StackSide;

struct Resolved {
  StackKey key;
  std::string path;   // the key that was given: "model.wiring" also for a stack of a pair
  std::string given;  // its text
  formula::Wiring wiring;
};

// The formula with the values of its `let` names written in.
std::string full_text(const formula::Wiring& wiring) {
  if (wiring.let_overrides.empty()) return trim(wiring.text);
  formula::Program program = wiring.program;
  for (formula::Statement& statement : program.let) {
    for (size_t i = 0; i < statement.names.size() && i < statement.values.size(); ++i) {
      const auto found = wiring.let_overrides.find(statement.names[i]);
      if (found != wiring.let_overrides.end()) statement.values[i] = formula::number(found->second);
    }
  }
  return trim(formula::print(program));
}

std::vector<Resolved> resolve_stacks(Loader* loader) {
  const ModelSection& m = loader->spec.model;
  std::vector<Resolved> all;
  Findings last;  // both stacks of one wiring have the same problems: reported once
  for (const StackKey& key : stack_keys(m.kind)) {
    const std::string path = loader->given(key.wiring) ? key.wiring : "model.wiring";
    if (!loader->good(path)) continue;
    const Key* registered = find_key(path);
    const auto value = read_toml_value(registered->read(loader->spec));
    if (!value) continue;
    try {
      all.push_back(
          {key, path, value->text, formula::resolve(value->text, key.stack, loader->catalogue)});
    } catch (const Error& error) {
      Findings found = error.findings();
      if (found.empty()) found.push_back({Level::error, "", error.what()});
      if (lines_of(found) != lines_of(last)) loader->adopt(path, found);
      last = found;
    }
  }
  return all;
}

bool sizes_are_good(const Loader& loader) {
  const ModelSection& m = loader.spec.model;
  const bool layers =
      m.kind == "encoder-decoder" ? m.encoder_layers > 0 && m.decoder_layers > 0 : m.layers > 0;
  return layers && m.width > 0 && m.heads > 0 && m.kv_heads > 0 && m.head_dim > 0 && m.ffn > 0 &&
         loader.good("model.norm");
}

// Published rules of an entry for one stack of a model, with the role as [init] would spell it.
std::map<std::string, std::string> published(const formula::Entry* entry, StackSide side,
                                             const formula::Catalogue& catalogue) {
  std::map<std::string, std::string> rules;
  if (entry == nullptr) return rules;
  if (side == StackSide::single) {
    for (const formula::InitRule& rule : entry->init) rules[rule.role] = rule.rule;
    return rules;
  }
  const formula::Entry* whole = entry;
  if (entry->init.empty() && entry->pair_init.empty()) {  // "name/encoder" may leave it to "name"
    const formula::Entry* base = catalogue.find(entry->name.substr(0, entry->name.find('/')));
    if (base != nullptr) whole = base;
  }
  const std::string own = side == StackSide::encoder ? "encoder." : "decoder.";
  const std::string other = side == StackSide::encoder ? "decoder." : "encoder.";
  for (const formula::InitRule& rule : whole->pair_init.empty() ? whole->init : whole->pair_init) {
    if (rule.role.starts_with(other)) continue;
    const bool shared = rule.role == "default" || rule.role == "head";
    const std::string role = rule.role.starts_with(own) ? rule.role.substr(own.size()) : rule.role;
    if (side == StackSide::encoder && role.starts_with("cross_")) continue;
    rules[shared ? role : own + role] = rule.rule;
  }
  return rules;
}

// [init] after the published rules: a role set by the user replaces that role's rule, `default` all.
void merge_init(Loader* loader, const std::vector<Resolved>& stacks) {
  Specification& spec = loader->spec;
  std::map<std::string, std::string> rules;
  std::map<std::string, std::string> names;  // role -> entry
  std::string name;
  for (const Resolved& stack : stacks) {
    for (const auto& [role, rule] :
         published(stack.wiring.entry, stack.key.side, loader->catalogue)) {
      rules[role] = rule;
      name = stack.wiring.name;
    }
  }
  // The user's rule for a role of these, the more exact spelling first.
  const auto set_by_user = [&](const std::string& role) -> std::string {
    const std::string bare = role.substr(role.find('.') + 1);
    for (const std::string& path : {"init." + role, "init." + bare}) {
      if (loader->given(path)) return path;
    }
    return "";
  };
  const bool all = loader->given("init.default");
  std::map<std::string, std::vector<std::string>> replaced;  // path of the user -> published rules
  for (const auto& [role, rule] : rules) {
    const std::string path = set_by_user(role);
    const std::string by = !path.empty() ? path : all ? "init.default" : "";
    if (by.empty()) {
      spec.init[role] = rule;
      spec.sources["init." + role] = Source::wiring;
      continue;
    }
    if (!loader->good(by)) continue;
    if (!same_rule(spec.init[by.substr(5)], rule)) replaced[by].push_back(role + " = " + rule);
  }
  for (const auto& [path, which] : replaced) {
    loader->note(Level::warning, path,
                 "replaces the initialization published with " + name + ": " + join(which, ", "));
  }
}

// Values that need no graph: finite, and not negative where they are a spread.
void judge_init(Loader* loader, const graph::ModelShape& shape) {
  for (const auto& [role, text] : loader->spec.init) {
    const std::string path = "init." + role;
    if (!loader->given(path) || !loader->good(path)) continue;
    const RuleText rule = parse_rule(text);
    for (const StackKey& key : stack_keys(loader->spec.model.kind)) {
      if (role.starts_with("encoder.") && key.side != StackSide::encoder) continue;
      if (role.starts_with("decoder.") && key.side != StackSide::decoder) continue;
      formula::Scalars names = scalars(shape, key.side);
      names["fan_in"] = names["fan_out"] = names["d"];
      for (const double layer : {1.0, names["L"]}) {
        names["l"] = layer;
        const auto value = formula::evaluate(*rule.argument, names);
        const std::string wrong = number_problem(rule, value);
        if (wrong.empty()) continue;
        loader->problem(path, wrong + " from `" + formula::print(*rule.argument) +
                                  "` at l = " + shortest(layer));
        break;
      }
      if (!loader->good(path)) break;
    }
  }
}

void judge_factors(Loader* loader, const graph::ModelShape& shape) {
  const TrainSection& train = loader->spec.train;
  for (const auto& [table, factors] : {std::pair{std::string("train.lr_scale."), &train.lr_scale},
                                       std::pair{std::string("train.decay."), &train.decay}}) {
    for (const auto& [role, text] : *factors) {
      const std::string path = table + role;
      if (!loader->good(path)) continue;
      const formula::ExprPtr expression = formula::parse_expression(text);
      for (const StackKey& key : stack_keys(loader->spec.model.kind)) {
        formula::Scalars names = scalars(shape, key.side);
        for (const double t : {1.0, std::numeric_limits<double>::infinity()}) {
          names["t"] = t;
          const auto value = formula::evaluate(*expression, names);
          if (value && std::isfinite(*value) && *value >= 0) continue;
          loader->problem(path, "expected a finite number of at least 0 at every t, got " +
                                    (value ? shortest(*value) : std::string("none")) + " from `" +
                                    text + "` at t = " + (t == 1 ? "1" : "infinity"));
          break;
        }
        if (!loader->good(path)) break;
      }
    }
  }
}

struct NormKeys {
  bool eps = false, bias = false, unit_offset = false;
};

void see_norm(const std::string& kind, const std::vector<formula::Option>& options,
              NormKeys* used) {
  const auto has = [&](const char* name) {
    return std::any_of(options.begin(), options.end(),
                       [&](const formula::Option& option) { return option.name == name; });
  };
  const bool plain = std::any_of(options.begin(), options.end(), [](const formula::Option& option) {
    return option.name == "affine" && option.word == "false";
  });
  const bool layer = kind == "layernorm";
  if (!layer && kind != "rmsnorm" && kind != "scalenorm") return;
  used->eps = used->eps || !has("eps");
  used->bias = used->bias || (layer && !plain && !has("bias"));
  used->unit_offset = used->unit_offset || (!plain && !has("unit_offset"));
}

void see_options(const std::vector<formula::Option>& options, const std::string& standard,
                 NormKeys* used) {
  for (const formula::Option& option : options) {
    if (formula::is_norm_kind(option.word)) {
      see_norm(option.word == "norm" ? standard : option.word, option.inner, used);
    }
    see_options(option.inner, standard, used);
  }
}

void judge_norm_keys(Loader* loader, const std::vector<Resolved>& stacks) {
  NormKeys used;
  const std::string& standard = loader->spec.model.norm;
  const auto see = [&](const std::vector<formula::Statement>& statements) {
    for (const formula::Statement& statement : statements) {
      for (const formula::ExprPtr& value : statement.values) {
        formula::visit(*value, [&](const formula::Expr& e) {
          if (e.kind != formula::Expr::Kind::call) return;
          if (formula::is_norm_kind(e.name)) {
            see_norm(e.name == "norm" ? standard : e.name, e.options, &used);
          } else {
            see_options(e.options, standard, &used);
          }
        });
      }
    }
  };
  for (const Resolved& stack : stacks) {
    see(stack.wiring.program.begin);
    see(stack.wiring.program.end);
    for (const formula::Block& block : stack.wiring.program.blocks) see(block.body);
  }
  const auto idle = [&](const std::string& path, bool is_used) {
    if (!is_used && loader->set_otherwise(path)) {
      loader->note(Level::warning, path, "no effect: no norm of the model uses it");
    }
  };
  idle("model.norm_eps", used.eps);
  idle("model.norm_bias", used.bias);
  idle("model.norm_unit_offset", used.unit_offset);
}

// A formula that carries a catalogue name: does the catalogue still say the same?
void compare_name(Loader* loader, const Resolved& stack) {
  const std::string path = stack.key.wiring + "_name";
  if (!loader->given(path) || !loader->good(path)) return;
  const auto value = read_toml_value(find_key(path)->read(loader->spec));
  if (!value) return;
  std::string problem = "is not in the catalogue";
  try {
    const formula::Wiring named = formula::resolve(value->text, stack.key.stack, loader->catalogue);
    const std::string theirs = full_text(named), ours = full_text(stack.wiring);
    if (theirs == ours || formula::same(formula::parse(theirs), formula::parse(ours))) return;
    problem = "is a catalogue entry that now differs";
  } catch (const Error&) {
    if (!loader->of_a_run()) return;  // a name of the user's own
  }
  loader->note(Level::warning, path,
               "\"" + value->text + "\" " + problem + "; the formula written here is used");
}

void keep_text(Loader* loader, const Resolved& stack) {
  ModelSection& m = loader->spec.model;
  auto& sources = loader->spec.sources;
  const bool encoder = stack.key.side == StackSide::encoder;
  const bool single = stack.key.side == StackSide::single;
  std::string& text = single ? m.wiring : encoder ? m.encoder_wiring : m.decoder_wiring;
  std::string& name = single    ? m.wiring_name
                      : encoder ? m.encoder_wiring_name
                                : m.decoder_wiring_name;
  sources[stack.key.wiring] = sources[stack.path];
  text = full_text(stack.wiring);
  if (stack.wiring.entry != nullptr) {
    name = stack.given;
    sources[stack.key.wiring + "_name"] = sources[stack.path];
  }
}

}  // namespace

void resolve_wirings(Loader* loader) {
  const ModelSection& m = loader->spec.model;
  if (m.kind.empty()) return;
  const std::vector<Resolved> stacks = resolve_stacks(loader);
  const bool whole = stacks.size() == stack_keys(m.kind).size();
  merge_init(loader, stacks);
  if (!whole || !sizes_are_good(*loader)) return;
  judge_norm_keys(loader, stacks);
  for (const char* path : {"model.activation", "model.positions"}) {
    if (!loader->good(path)) return;
  }
  graph::ModelShape shape = sizes(m);
  for (const Resolved& stack : stacks) {
    graph::StackProgram& program = program_of(&shape, stack.key.side);
    program.program = stack.wiring.program;
    program.let_overrides = stack.wiring.let_overrides;
  }
  bool programs = true;
  for (const Resolved& stack : stacks) {
    const Findings found =
        formula::check(stack.wiring.program, graph::context_of(shape, stack.key.side));
    programs = programs && !has_errors(found);
    loader->adopt(stack.path, found);
  }
  if (!programs) return;
  const auto report = [&](const std::string& path, const std::string& message) {
    loader->problem(path, message);
  };
  bool scales = true;
  for (const char* path : {"model.embed_scale", "model.attn_scale", "model.logit_scale"}) {
    scales = scales && loader->good(path);
  }
  if (scales) evaluate_scales(m, &shape, report);
  judge_init(loader, shape);
  judge_factors(loader, shape);
  for (const Resolved& stack : stacks) {
    compare_name(loader, stack);
    keep_text(loader, stack);
  }
  if (stacks.size() == 2) loader->spec.model.wiring.clear();
}

}  // namespace addnorm::model
