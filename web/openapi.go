package web

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// field makes a member of an object.
func field(name string, v jsonform.Value) jsonform.Field { return jsonform.Field{Name: name, Value: v} }

// one is an object with one member.
func one(name string, v jsonform.Value) jsonform.Value { return jsonform.Object(field(name, v)) }

// text is a string.
func text(s string) jsonform.Value { return jsonform.String(s) }

// openAPI describes routes in OpenAPI 3.1, from the table of routes and the
// messages themselves, so that it cannot say anything else than what is served.
func openAPI(all []route) []byte {
	s := &schemas{seen: make(map[protoreflect.FullName]struct{}), said: readComments()}
	var paths []jsonform.Field
	for i := range all {
		if pathKnown(all[:i], all[i].path) {
			continue
		}
		var verbs []jsonform.Field
		for _, rt := range all {
			if rt.path == all[i].path {
				verbs = append(verbs, field(strings.ToLower(rt.verb), s.operation(&rt)))
			}
		}
		paths = append(paths, field(all[i].path, jsonform.Object(verbs...)))
	}
	s.add((&nornv1.Error{}).ProtoReflect().Descriptor())
	return jsonform.Object(
		field("openapi", text("3.1.0")),
		field("info", jsonform.Object(field("title", text("Norn")), field("version", text("v1")),
			field("license", jsonform.Object(field("name", text("Apache-2.0")), field("identifier", text("Apache-2.0")))),
			field("description", text("Each operation is one method of the wire protocol; docs/reference/protocol.md says what they mean, docs/reference/http.md what HTTP adds.")))),
		field("servers", jsonform.List(one("url", text("/")))),
		field("paths", jsonform.Object(paths...)),
		field("components", jsonform.Object(
			field("securitySchemes", jsonform.Object(
				field("token", jsonform.Object(field("type", text("http")), field("scheme", text("bearer")))),
				field("header", jsonform.Object(field("type", text("apiKey")), field("in", text("header")), field("name", text(tokenHeader)))),
			)),
			field("responses", jsonform.Object(responses()...)),
			field("schemas", jsonform.Object(append(s.fields, field(problemSchema, problem()))...)),
		)),
		field("security", jsonform.List(jsonform.Object(), one("token", jsonform.List()), one("header", jsonform.List()))),
	).JSON()
}

func pathKnown(before []route, path string) bool {
	for _, rt := range before {
		if rt.path == path {
			return true
		}
	}
	return false
}

// schemas collects the messages that are used.
type schemas struct {
	seen   map[protoreflect.FullName]struct{}
	said   comments
	fields []jsonform.Field
}

func (s *schemas) operation(rt *route) jsonform.Value {
	request, reply := rt.request.ProtoReflect().Descriptor(), rt.reply.ProtoReflect().Descriptor()
	s.add(reply)
	out := []jsonform.Field{field("summary", text(rt.says)), field("operationId", text(operationID(rt)))}
	var parameters []jsonform.Value
	var maps []string
	if rt.field != "" {
		about := request.Fields().ByName(protoName(rt.field))
		parameters = append(parameters, parameter("name", "path", "The "+rt.field+" that the request is about. "+s.said.of(about), one("type", text("string"))))
	}
	if rt.verb == get {
		parameters = s.query(parameters, &maps, request, "", rt.field)
	}
	if len(maps) > 0 {
		out = append(out, field("description", text("Besides, one parameter for each key, NAME being the key: "+strings.Join(maps, ", "))))
	}
	if len(parameters) > 0 {
		out = append(out, field("parameters", jsonform.List(parameters...)))
	}
	if rt.verb != get {
		s.add(request)
		out = append(out, field("requestBody", jsonform.Object(field("required", jsonform.Bool(rt.verb != http.MethodDelete)), field("content", content("application/json", ref(string(request.Name())))))))
	}
	answer := []jsonform.Field{field("application/json", one("schema", ref(string(reply.Name()))))}
	if rt.streams {
		answer = append(answer, field("text/event-stream", one("schema", one("type", text("string")))))
	}
	answers := []jsonform.Field{field("200", jsonform.Object(field("description", text(http.StatusText(http.StatusOK))), field("content", jsonform.Object(answer...))))}
	for _, status := range failures(rt) {
		name := strconv.Itoa(status)
		answers = append(answers, field(name, one("$ref", text("#/components/responses/"+name))))
	}
	answers = append(answers, field("default", jsonform.Object(field("description", text("it failed, and says how")), field("content", content(problemType, ref(problemSchema))))))
	out = append(out, field("responses", jsonform.Object(answers...)))
	return jsonform.Object(out...)
}

// operationID names an operation: the path without what they have in common.
func operationID(rt *route) string {
	name := strings.TrimPrefix(rt.path, "/api/v1/")
	return strings.ToLower(rt.verb) + "_" + strings.NewReplacer("/", "_", "{", "", "}", "").Replace(name)
}

// query lists the fields of a message as parameters, and adds to maps those that
// have one for each key (docs/reference/http.md): OpenAPI knows no names that are open.
func (s *schemas) query(out []jsonform.Value, maps *[]string, m protoreflect.MessageDescriptor, prefix, skip string) []jsonform.Value {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := prefix + string(f.Name())
		switch {
		case name == skip:
		case f.IsMap():
			*maps = append(*maps, name+".NAME")
		case f.Kind() == protoreflect.MessageKind && string(f.Message().Name()) != "Timestamp":
			out = s.query(out, maps, f.Message(), name+".", "")
		default:
			out = append(out, parameter(name, "query", s.said.of(f), s.field(f)))
		}
	}
	return out
}

func parameter(name, in, says string, schema jsonform.Value) jsonform.Value {
	return jsonform.Object(field("name", text(name)), field("in", text(in)), field("description", text(says)), field("required", jsonform.Bool(in == "path")), field("schema", schema))
}

func content(kind string, schema jsonform.Value) jsonform.Value {
	return one(kind, one("schema", schema))
}

func ref(name string) jsonform.Value { return one("$ref", text("#/components/schemas/"+name)) }

// add describes a message and those within it, once. They do not contain
// themselves.
func (s *schemas) add(m protoreflect.MessageDescriptor) {
	if _, ok := s.seen[m.FullName()]; ok {
		return
	}
	s.seen[m.FullName()] = struct{}{}
	var members []jsonform.Field
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		members = append(members, field(string(f.Name()), s.field(f).With("description", text(s.said.of(f)))))
		members = append(members, texts(f)...)
	}
	s.fields = append(s.fields, field(string(m.Name()), jsonform.Object(
		field("description", text(s.said[string(m.Name())])),
		field("type", text("object")), field("properties", jsonform.Object(members...)), field("additionalProperties", jsonform.Bool(false)))))
}

// texts are the other names of a field of bytes.
func texts(f protoreflect.FieldDescriptor) (out []jsonform.Field) {
	name := string(f.Name())
	if jsonform.Shown(f) {
		return []jsonform.Field{field(name+"_text", jsonform.Object(field("anyOf", jsonform.List(one("type", text("string")), one("type", text("null")))),
			field("description", text("The same as "+name+", as text; null where it is not UTF-8."))))}
	}
	if names := jsonform.Names(f); len(names) == 3 {
		out = append(out,
			field(names[1], jsonform.Object(field("type", text("string")), field("writeOnly", jsonform.Bool(true)), field("description", text("Text, instead of "+name+".")))),
			field(names[2], jsonform.Object(field("writeOnly", jsonform.Bool(true)), field("description", text("Any JSON, instead of "+name+"; white space between its parts goes.")))))
	}
	return out
}

// field is the schema of a field.
func (s *schemas) field(f protoreflect.FieldDescriptor) jsonform.Value {
	switch {
	case f.IsMap():
		return jsonform.Object(field("type", text("object")), field("additionalProperties", s.value(f.MapValue())))
	case f.IsList():
		return jsonform.Object(field("type", text("array")), field("items", s.value(f)))
	}
	v := s.value(f)
	if f.HasPresence() {
		return one("anyOf", jsonform.List(v, one("type", text("null"))))
	}
	return v
}

// value is the schema of one value of a field.
func (s *schemas) value(f protoreflect.FieldDescriptor) jsonform.Value {
	typed := func(t, format string) jsonform.Value {
		return jsonform.Object(field("type", text(t)), field("format", text(format)))
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return one("type", text("boolean"))
	case protoreflect.StringKind:
		return one("type", text("string"))
	case protoreflect.BytesKind:
		return typed("string", "byte")
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return typed("number", "double")
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return typed("integer", f.Kind().String())
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return typed("string", f.Kind().String())
	case protoreflect.EnumKind:
		var names []jsonform.Value
		for i := range f.Enum().Values().Len() {
			names = append(names, text(jsonform.ValueName(f.Enum().Values().Get(i))))
		}
		return jsonform.Object(field("type", text("string")), field("enum", jsonform.List(names...)))
	case protoreflect.MessageKind:
		if f.Message().Name() == "Timestamp" {
			return typed("string", "date-time")
		}
		s.add(f.Message())
		return ref(string(f.Message().Name()))
	}
	panic("a kind of field that no message has: " + f.Kind().String())
}
