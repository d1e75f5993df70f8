/**
 * Graphs: immutable nodes, values, attributes, subgraphs and functions, with ONNX's semantics but without protobuf. Unknown fields are
 * passed through as {@link Bytes}, so that reading and writing a model loses nothing. Graphs are changed only by {@link GraphEdit}.
 * Importers produce graphs, the converter and the trainer consume them.
 */
@NullMarked
package dev.octet.formats.graph;

import org.jspecify.annotations.NullMarked;
