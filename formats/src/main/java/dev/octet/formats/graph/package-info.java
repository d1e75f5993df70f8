/**
 * Graphs: immutable nodes, values, attributes, subgraphs and functions, in ONNX's semantics but without protobuf. What Octet
 * does not understand rides along as {@link Bytes} so that reading and writing a model loses nothing. {@link GraphEdit} is the
 * only way to get a changed graph. Importers produce graphs, the converter and the trainer consume them.
 */
@NullMarked
package dev.octet.formats.graph;

import org.jspecify.annotations.NullMarked;
