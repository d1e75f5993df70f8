package dev.octet.converter.verify;

import dev.octet.formats.graph.GraphModel;

/** An ONNX model as rules see it. */
record GraphSubject(GraphModel model) {}
