package main

import (
	"fmt"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// keywords are the JSON Schema keywords that say what protovalidate's rules say. Rules in CEL have none: they are told in
// the field's comment.
var keywords = map[protoreflect.Name]string{
	"min_len": "minLength",
	"max_len": "maxLength",
	"pattern": "pattern",
	"gt":      "exclusiveMinimum",
	"gte":     "minimum",
	"lt":      "exclusiveMaximum",
	"lte":     "maximum",
}

// addRules puts the rules of each request's fields into the schemas of its body or parameters.
func addRules(doc object, plugin *protogen.Plugin) error {
	found, err := operations(doc)
	if err != nil {
		return err
	}
	for _, file := range plugin.Files {
		if !file.Generate {
			continue
		}
		for _, service := range file.Services {
			for _, method := range service.Methods {
				id := service.GoName + "_" + method.GoName
				operation, ok := found[id]
				if !ok {
					return fmt.Errorf("the document has no operation %s", id)
				}
				if err := addRequestRules(operation, method.Input.Desc); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
		}
	}
	return nil
}

func addRequestRules(operation object, request protoreflect.MessageDescriptor) error {
	if operation["requestBody"] != nil {
		body, err := at(operation, "requestBody", "content", "application/json", "schema")
		if err != nil {
			return err
		}
		return addBodyRules(body, request)
	}
	parameters, _ := operation["parameters"].([]any)
	for _, parameter := range parameters {
		schema, err := at(parameter.(object), "schema")
		if err != nil {
			return err
		}
		name, _ := parameter.(object)["name"].(string)
		if err := addFieldRules(schema, request.Fields().ByName(protoreflect.Name(name))); err != nil {
			return err
		}
	}
	return nil
}

// addBodyRules closes the object, since a field that is not listed is refused, and lets integers of 64 bits be numbers as
// well as strings, since both are read.
func addBodyRules(body object, request protoreflect.MessageDescriptor) error {
	body["additionalProperties"] = false
	var required []any
	for i := range request.Fields().Len() {
		field := request.Fields().Get(i)
		schema, err := at(body, "properties", string(field.Name()))
		if err != nil {
			return err
		}
		if err := addFieldRules(schema, field); err != nil {
			return err
		}
		if field.Kind() == protoreflect.Int64Kind {
			schema["type"] = []any{"integer", "string"}
		}
		if rulesOf(field).GetRequired() {
			required = append(required, string(field.Name()))
		}
	}
	body["required"] = required
	return nil
}

func addFieldRules(schema object, field protoreflect.FieldDescriptor) error {
	rules := rulesOf(field).ProtoReflect()
	kind := rules.WhichOneof(rules.Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return nil
	}
	var err error
	rules.Get(kind).Message().Range(func(rule protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		keyword, ok := keywords[rule.Name()]
		if !ok {
			err = fmt.Errorf("%s: no JSON Schema keyword is known for the rule %s", field.FullName(), rule.FullName())
			return false
		}
		schema[keyword] = value.Interface()
		return true
	})
	return err
}

func rulesOf(field protoreflect.FieldDescriptor) *validate.FieldRules {
	return proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
}
