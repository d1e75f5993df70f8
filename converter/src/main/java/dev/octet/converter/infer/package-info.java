/**
 * What can be known of a graph's values without running it: types, dimensions (numbers and symbols), and the elements of small
 * values such as shapes. What comes in: a graph of any opset from 9 on; what goes out: an {@link
 * dev.octet.converter.infer.Analysis}. The passes call it.
 *
 * <p>Source of every rule: the ONNX operator specification, <a
 * href="https://github.com/onnx/onnx/blob/main/docs/Operators.md">Operators.md</a> and <a
 * href="https://github.com/onnx/onnx/blob/main/docs/Changelog.md">Changelog.md</a>.
 */
@NullMarked
package dev.octet.converter.infer;

import org.jspecify.annotations.NullMarked;
