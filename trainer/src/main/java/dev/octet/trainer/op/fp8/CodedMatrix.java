package dev.octet.trainer.op.fp8;

import dev.octet.quant.number.Float8Format;

/**
 * What the codes of a matrix mean.
 *
 * @param format one code per byte
 * @param blocks which codes share a scale
 */
public record CodedMatrix(Float8Format format, Blocks blocks) {}
