/**
 * NumPy's {@code .npz}, a zip of {@code .npy} arrays, for calibration, evaluation and training data. Bytes come in, tensors of Octet's
 * element types go out, whole or slice by slice along the first axis; a writer for callers who make such data. Faults are
 * {@link dev.octet.formats.error.InvalidDataException}: these files are data for a model, not models.
 *
 * <p>Source: the format's description, numpy/lib/format.py (NEP 1), versions 1.0, 2.0 and 3.0.
 */
@NullMarked
package dev.octet.formats.npy;

import org.jspecify.annotations.NullMarked;
