package dev.octet.trainer.kernel;

/** A reduction of several elements to one. */
public enum Fold {
    /** Sum. */
    SUM {
        @Override
        float start() {
            return 0;
        }

        @Override
        float of(float[] x, int from, int n) {
            return VectorMath.sum(x, from, n);
        }

        @Override
        void into(float[] to, int at, float[] from, int first, int n) {
            VectorMath.add(from, first, to, at, n);
        }
    },
    /** Maximum; NaN when any element is NaN. */
    MAX {
        @Override
        float start() {
            return Float.NEGATIVE_INFINITY;
        }

        @Override
        float of(float[] x, int from, int n) {
            return VectorMath.max(x, from, n);
        }

        @Override
        void into(float[] to, int at, float[] from, int first, int n) {
            for (int i = 0; i < n; i++) {
                to[at + i] = Math.max(to[at + i], from[first + i]);
            }
        }
    };

    /** Neutral element, the result for no elements. */
    abstract float start();

    /** Reduces {@code n} elements. */
    abstract float of(float[] x, int from, int n);

    /** Combines {@code n} elements of {@code from} elementwise into {@code to}. */
    abstract void into(float[] to, int at, float[] from, int first, int n);
}
