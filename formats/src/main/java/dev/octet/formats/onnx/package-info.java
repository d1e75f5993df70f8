/**
 * Reads and writes ONNX files. In: a path. Out: a {@link dev.octet.formats.graph.GraphModel} whose tensors are views of the mapped file.
 * The only room that uses protobuf; the generated classes ({@code onnx.proto}) do not leave it.
 */
@NullMarked
package dev.octet.formats.onnx;

import org.jspecify.annotations.NullMarked;
