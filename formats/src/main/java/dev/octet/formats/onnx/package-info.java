/**
 * ONNX files. In: a path; out: a {@link dev.octet.formats.graph.GraphModel} whose tensors are views of the mapped file, and
 * back. The only room that knows protobuf; the generated classes ({@code onnx.proto}) do not leave it.
 */
@NullMarked
package dev.octet.formats.onnx;

import org.jspecify.annotations.NullMarked;
