#include "addnorm/report/drawing.h"

#include "addnorm/base/text.h"
#include "addnorm/formula/diagram.h"
#include "addnorm/formula/program.h"
#include "addnorm/model/shape.h"

namespace addnorm::report {

std::vector<Drawing> drawings_of(const model::Specification& specification,
                                 const formula::Catalogue& catalogue) {
  const model::ModelSection& m = specification.model;
  std::vector<Drawing> drawings;
  for (const model::StackKey& key : model::stack_keys(m.kind)) {
    std::string text = m.wiring, name = m.wiring_name;
    if (key.stack == formula::Stack::pair_encoder && !m.encoder_wiring.empty()) {
      text = m.encoder_wiring;
      name = m.encoder_wiring_name;
    }
    if (key.stack == formula::Stack::pair_decoder && !m.decoder_wiring.empty()) {
      text = m.decoder_wiring;
      name = m.decoder_wiring_name;
    }
    const formula::Wiring wiring = formula::resolve(text, key.stack, catalogue);
    Drawing drawing;
    drawing.name = name;
    drawing.formula = trim(formula::print(wiring.program));
    drawing.picture = formula::diagram(wiring.program, key.stack);
    if (key.side == graph::StackSide::encoder) drawing.name += " (encoder)";
    if (key.side == graph::StackSide::decoder) drawing.name += " (decoder)";
    drawings.push_back(drawing);
  }
  return drawings;
}

}  // namespace addnorm::report
