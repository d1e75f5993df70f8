/**
 * Passes over an imported graph: opset upgrade, constant folding, shape inference, untying of merged constants. What comes
 * in: a model as its exporter wrote it; what goes out: a model at one opset with known types and no shape arithmetic that
 * could be computed beforehand. Pattern rules run on the result.
 */
@NullMarked
package dev.octet.converter.pass;

import org.jspecify.annotations.NullMarked;
