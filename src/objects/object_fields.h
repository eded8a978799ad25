// objects/object_fields.h
//
// Imports the names of kube/object_json.h that the decoders of this folder use. Includes simdjson,
// so include this header only in .cc files.
#pragma once

#include "kube/object_json.h"

namespace tessera::objects {

using kube::each_element;
using kube::each_entry;
using kube::each_field;
using kube::each_meta_field;
using kube::is;
using kube::is_null;
using kube::JsonError;
using kube::JsonKey;
using kube::JsonObject;
using kube::JsonValue;
using kube::ObjectJson;
using kube::ObjectMeta;
using kube::read_meta;
using kube::read_meta_field;
using kube::read_text;
using kube::read_view;

}  // namespace tessera::objects
