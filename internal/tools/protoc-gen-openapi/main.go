// Command protoc-gen-openapi is a protoc plugin that makes openapi.json, the OpenAPI 3.1 document of the REST face.
//
// It lets protoc-gen-openapiv3, which knows HTTP bindings and protobuf's JSON, make a first form, and adds what that one
// does not read: the field rules (rules.go), the error table (problems.go), and an overlay (overlay.go) with the rest of
// HTTP: headers, status codes, authentication. Fields have their proto names, which is how the server writes them.
//
// Its one option, overlay, is the path of the overlay.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "protoc-gen-openapi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	raw, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{}
	if err := proto.Unmarshal(raw, request); err != nil {
		return err
	}
	var flags flag.FlagSet
	overlayPath := flags.String("overlay", "", "path of the overlay")
	plugin, err := protogen.Options{ParamFunc: flags.Set}.New(request)
	if err != nil {
		return err
	}
	doc, err := firstForm(ctx, request)
	if err != nil {
		return err
	}
	overlay, err := readOverlay(*overlayPath)
	if err != nil {
		return err
	}
	if err := addRules(doc, plugin); err != nil {
		return err
	}
	doc = merge(doc, overlay)
	if err := shareParameters(doc); err != nil {
		return err
	}
	table, err := readErrorTable(request, plugin)
	if err != nil {
		return err
	}
	if err := addProblems(doc, table); err != nil {
		return err
	}
	return respond(plugin, doc, out)
}

// firstForm runs protoc-gen-openapiv3, which must be on PATH, over the request.
func firstForm(ctx context.Context, request *pluginpb.CodeGeneratorRequest) (object, error) {
	request = proto.CloneOf(request)
	request.Parameter = proto.String("disable_default_errors")
	for _, file := range request.GetProtoFile() {
		useProtoNames(file.GetMessageType())
	}
	raw, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "protoc-gen-openapiv3")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-openapiv3: %w", err)
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(answer, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	if len(response.GetFile()) != 1 {
		return nil, fmt.Errorf("protoc-gen-openapiv3 made %d documents: one was expected", len(response.GetFile()))
	}
	doc := object{}
	if err := json.Unmarshal([]byte(response.GetFile()[0].GetContent()), &doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// useProtoNames makes the proto name of each field its JSON name too.
func useProtoNames(messages []*descriptorpb.DescriptorProto) {
	for _, message := range messages {
		for _, field := range message.GetField() {
			field.JsonName = proto.String(field.GetName())
		}
		useProtoNames(message.GetNestedType())
	}
}

// respond writes the document as the plugin's answer. Objects have their keys sorted, so equal input gives equal bytes.
func respond(plugin *protogen.Plugin, doc object, out io.Writer) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(doc); err != nil {
		return err
	}
	if _, err := plugin.NewGeneratedFile("openapi.json", "").Write([]byte(text.String())); err != nil {
		return err
	}
	raw, err := proto.Marshal(plugin.Response())
	if err != nil {
		return err
	}
	_, err = out.Write(raw)
	return err
}
