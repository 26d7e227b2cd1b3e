package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	reasonEnum    protoreflect.FullName = "payments.v1.Reason"
	problemOption protoreflect.FullName = "payments.v1.problem"
	// reasonsMember is where the overlay lists the reasons with which an operation may fail.
	reasonsMember = "x-reasons"
	// reasonMember is where it names the one of a response that operations share.
	reasonMember = "x-reason"
)

// reason is a value of the enum Reason with its row of the error table.
type reason struct {
	Name       string
	Comment    string
	HTTPStatus int    `json:"http_status"`
	NextAction string `json:"next_action"`
	Stored     bool   `json:"stored"`
}

// readErrorTable returns the reasons by their names.
func readErrorTable(request *pluginpb.CodeGeneratorRequest, plugin *protogen.Plugin) (map[string]reason, error) {
	files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: request.GetProtoFile()})
	if err != nil {
		return nil, err
	}
	types := dynamicpb.NewTypes(files)
	option, err := types.FindExtensionByName(problemOption)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", problemOption, err)
	}
	table := map[string]reason{}
	for _, file := range plugin.Files {
		for _, enum := range file.Enums {
			if enum.Desc.FullName() != reasonEnum {
				continue
			}
			for _, value := range enum.Values {
				if value.Desc.Number() == 0 {
					continue
				}
				r, err := readReason(value, option, types)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", value.Desc.FullName(), err)
				}
				table[r.Name] = r
			}
		}
	}
	return table, nil
}

// readReason reads the value's row. The option is defined in the very files that are being generated, so it is read by
// reflection.
func readReason(value *protogen.EnumValue, option protoreflect.ExtensionType, types *dynamicpb.Types) (reason, error) {
	raw, err := proto.Marshal(value.Desc.Options())
	if err != nil {
		return reason{}, err
	}
	options := &descriptorpb.EnumValueOptions{}
	if err := (proto.UnmarshalOptions{Resolver: types}).Unmarshal(raw, options); err != nil {
		return reason{}, err
	}
	row, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(proto.GetExtension(options, option).(proto.Message))
	if err != nil {
		return reason{}, err
	}
	r := reason{
		Name:    string(value.Desc.Name()),
		Comment: strings.Join(strings.Fields(string(value.Comments.Leading)), " "),
	}
	if err := json.Unmarshal(row, &r); err != nil {
		return reason{}, err
	}
	r.NextAction = strings.ToLower(r.NextAction)
	return r, nil
}

// addProblems gives each operation a response for each HTTP status of its reasons. What the overlay says of such a response
// or schema is laid over it.
func addProblems(doc object, table map[string]reason) error {
	found, err := operations(doc)
	if err != nil {
		return err
	}
	schemas, err := at(doc, "components", "schemas")
	if err != nil {
		return err
	}
	for id, operation := range found {
		names, _ := operation[reasonsMember].([]any)
		delete(operation, reasonsMember)
		byStatus := map[int][]reason{}
		for _, name := range names {
			r, ok := table[fmt.Sprint(name)]
			if !ok {
				return fmt.Errorf("%s: there is no reason %v", id, name)
			}
			byStatus[r.HTTPStatus] = append(byStatus[r.HTTPStatus], r)
			layUnder(schemas, r.schemaName(), r.schema())
		}
		responses, err := at(operation, "responses")
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		for status, reasons := range byStatus {
			layUnder(responses, strconv.Itoa(status), response(reasons))
		}
	}
	return addSharedProblems(doc, table, schemas)
}

// addSharedProblems completes the responses among the components: errors that concern no operation, such as a wrong method.
func addSharedProblems(doc object, table map[string]reason, schemas object) error {
	shared, err := at(doc, "components", "responses")
	if err != nil {
		return err
	}
	for id := range shared {
		entry, err := at(shared, id)
		if err != nil {
			return err
		}
		name, ok := entry[reasonMember]
		if !ok {
			continue // it says all by itself
		}
		delete(entry, reasonMember)
		r, ok := table[fmt.Sprint(name)]
		if !ok {
			return fmt.Errorf("%s: there is no reason %v", id, name)
		}
		layUnder(schemas, r.schemaName(), r.schema())
		layUnder(shared, id, response([]reason{r}))
	}
	return nil
}

// layUnder gives the member what base says, where the member itself does not say otherwise.
func layUnder(parent object, member string, base object) {
	over, _ := parent[member].(object)
	parent[member] = merge(base, over)
}

func (r reason) schemaName() string { return "Problem." + r.Name }

// schema is the problem document of the reason, and of no other.
func (r reason) schema() object {
	schema := object{
		"description": r.Comment,
		"allOf":       []any{object{"$ref": "#/components/schemas/Problem"}},
		"properties": object{
			"type":        object{"pattern": "/problems/" + r.Name + "$"},
			"status":      object{"const": r.HTTPStatus},
			"reason":      object{"const": r.Name},
			"next_action": object{"const": r.NextAction},
		},
	}
	if r.retry() {
		schema["required"] = []any{"retry_after_ms"}
	}
	return schema
}

// example is a problem document of the reason.
func (r reason) example() object {
	words := strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(r.Name, "_", " ")), "psp", "PSP")
	example := object{
		"type":        "/problems/" + r.Name,
		"title":       strings.ToUpper(words[:1]) + words[1:],
		"status":      r.HTTPStatus,
		"detail":      r.Comment,
		"reason":      r.Name,
		"next_action": r.NextAction,
	}
	if r.retry() {
		example["retry_after_ms"] = 1000
	}
	return example
}

func (r reason) retry() bool { return r.NextAction == "retry_same_key" }

// response is the response of the one HTTP status that the reasons share.
func response(reasons []reason) object {
	var lines []string
	var schemas []any
	examples := object{}
	headers := object{"X-Trace-Id": object{"$ref": "#/components/headers/X-Trace-Id"}}
	for _, r := range reasons {
		lines = append(lines, fmt.Sprintf("- `%s` (%s): %s", r.Name, r.NextAction, r.Comment))
		schemas = append(schemas, object{"$ref": "#/components/schemas/" + r.schemaName()})
		examples[r.Name] = object{"value": r.example()}
	}
	if slices.ContainsFunc(reasons, reason.retry) {
		headers["Retry-After"] = object{"$ref": "#/components/headers/Retry-After"}
	}
	if slices.ContainsFunc(reasons, func(r reason) bool { return r.Stored }) {
		headers["Idempotent-Replayed"] = object{"$ref": "#/components/headers/Idempotent-Replayed"}
	}
	schema := schemas[0]
	if len(schemas) > 1 {
		schema = object{"oneOf": schemas}
	}
	return object{
		"description": strings.Join(lines, "\n"),
		"headers":     headers,
		"content":     object{"application/problem+json": object{"schema": schema, "examples": examples}},
	}
}
