package dev.octet.trainer.op.fp8;

import dev.octet.quant.number.Minifloat;

/**
 * What the codes of a matrix mean.
 *
 * @param format one code per byte
 * @param blocks which codes share a scale
 */
public record CodedMatrix(Minifloat format, Blocks blocks) {}
