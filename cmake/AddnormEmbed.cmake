# addnorm_embed(LAYER SYMBOL FILE..): the bytes of the files, one after the other, become
#   namespace addnorm::LAYER { extern const std::string_view SYMBOL; }
# in the layer's library (which needs a source file of its own). Run as a script (cmake -P) this
# file writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(bytes "")
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(file IN LISTS FILES)
    file(READ "${file}" hex HEX)
    string(APPEND bytes "${hex}")
  endforeach()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(..................................................)" "\\1\n" bytes "${bytes}")
  file(WRITE "${OUTPUT}" "// Made from ${FILES}.
#include <string_view>
namespace {
constexpr unsigned char bytes[] = {
${bytes}0};
}
namespace addnorm::${LAYER} {
extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL}{reinterpret_cast<const char*>(bytes), sizeof(bytes) - 1};
}
")
  return()
endif()

set(ADDNORM_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(addnorm_embed layer symbol)
  set(output ${PROJECT_BINARY_DIR}/embedded/${layer}_${symbol}.cpp)
  string(REPLACE ";" "|" files "${ARGN}")
  add_custom_command(OUTPUT ${output} DEPENDS ${ARGN} ${ADDNORM_EMBED_SCRIPT} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DLAYER=${layer} -DSYMBOL=${symbol}
      -DOUTPUT=${output} -P ${ADDNORM_EMBED_SCRIPT}
    COMMENT "Embedding ${symbol}")
  target_sources(addnorm_${layer} PRIVATE ${output})
endfunction()
