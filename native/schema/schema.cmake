# Writes the C++ side of src/opscope/columns/schema.py into the build folder: schema/codes.h and schema/tables.h
# in GENERATED_HEADERS. It is done when CMake runs, which it does again after a change of what they are made
# from.
get_filename_component(SCHEMA_ROOT "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(GENERATED_HEADERS "${CMAKE_CURRENT_BINARY_DIR}/generated")
set(SCHEMA_GENERATOR "${CMAKE_CURRENT_LIST_DIR}/generate_schema.py")
set(SCHEMA_SOURCES causes.py codes.py column.py device_schema.py schema.py)
list(TRANSFORM SCHEMA_SOURCES PREPEND "${SCHEMA_ROOT}/src/opscope/columns/")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SCHEMA_GENERATOR} ${SCHEMA_SOURCES})

execute_process(
  COMMAND "${Python_EXECUTABLE}" "${SCHEMA_GENERATOR}" "${SCHEMA_ROOT}/src" "${GENERATED_HEADERS}/schema"
  RESULT_VARIABLE SCHEMA_RESULT)
if(SCHEMA_RESULT)
  message(FATAL_ERROR "The schema's C++ side could not be written: ${SCHEMA_RESULT}")
endif()
