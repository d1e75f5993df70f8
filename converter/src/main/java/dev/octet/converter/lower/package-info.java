/**
 * Lowerings: from Octet's operators to those a consumer understands. What comes in: a rewritten model; what goes out: a model in
 * standard ONNX for one target.
 */
@NullMarked
package dev.octet.converter.lower;

import org.jspecify.annotations.NullMarked;
