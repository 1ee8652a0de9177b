#include "addnorm/train/plan.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "addnorm/base/text.h"
#include "addnorm/model/static_checks.h"

namespace addnorm::train {
namespace {

namespace fs = std::filesystem;

// A run may be resumed from another folder.
void make_paths_absolute(model::DataSection& data) {
  for (auto* list : {&data.source, &data.target}) {
    for (std::string& path : *list) path = fs::absolute(path).lexically_normal().string();
  }
  std::error_code code;
  if (fs::exists(data.validation, code)) {
    data.validation = fs::absolute(data.validation).lexically_normal().string();
  }
}

void append(Findings& to, const Findings& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

void fill_vocab(model::Specification& specification, const text::Tokenizer& tokenizer,
                Findings& findings) {
  int64_t& vocab = specification.model.vocab;
  const int64_t needed = tokenizer.vocab_size();
  if (vocab == 0) vocab = needed;
  if (vocab < needed) {
    fail_input("model.vocab",
               fmt::format("expected at least {}, the tokenizer's size, got {}; leave the "
                           "key out to take the tokenizer's",
                           needed, vocab));
  }
  if (vocab > needed) {
    findings.push_back(
        {Level::information, "model.vocab",
         fmt::format("{} rows, {} more than the tokenizer has; they are never generated", vocab,
                     vocab - needed)});
  }
}

Plan make_plan(const model::Specification& specification, const formula::Catalogue& catalogue,
               std::shared_ptr<const text::Tokenizer> tokenizer) {
  Plan plan;
  plan.specification = specification;
  plan.findings = specification.findings;
  make_paths_absolute(plan.specification.data);
  plan.task = data::task_of(specification.model.kind);
  plan.dataset = data::open_dataset({plan.specification.data, plan.task,
                                     specification.model.context, false, std::move(tokenizer)});
  append(plan.findings, plan.dataset.findings);
  fill_vocab(plan.specification, *plan.dataset.tokenizer, plan.findings);
  plan.shape = model::shape(plan.specification, catalogue, &plan.findings);
  plan.graph = model::build(plan.specification, plan.shape, &plan.findings);
  plan.estimate = model::estimate(plan.graph, plan.shape, plan.specification.train);
  model::require_memory(plan.estimate, model::available_memory());
  return plan;
}

std::string describe(const Plan& plan) {
  const model::TrainSection& train = plan.specification.train;
  const data::Entropies& entropies = plan.dataset.entropies;
  std::string text = model::describe(plan.estimate) + "\n";
  text += fmt::format("data: {} training tokens, {} validation tokens, {} distinct of {} ids\n",
                      plan.dataset.training->tokens(),
                      plan.dataset.validation ? plan.dataset.validation->tokens() : 0,
                      entropies.distinct, plan.specification.model.vocab);
  text += fmt::format("unigram entropy {:.4f} nat, bigram {:.4f}: what counting alone reaches\n",
                      entropies.unigram, entropies.bigram);
  text += fmt::format("{} updates, warm-up of {} (train.warmup = {})", train.steps,
                      model::warmup_steps(train), train.warmup);
  return text;
}

}  // namespace addnorm::train
