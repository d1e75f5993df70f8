package dev.octet.trainer.kernel;

/** How many elements become one. */
public enum Fold {
    /** Added. */
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
    /** The largest; NaN when one is NaN. */
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

    /** What no elements give. */
    abstract float start();

    /** {@code n} elements made one. */
    abstract float of(float[] x, int from, int n);

    /** Each of {@code n} elements of {@code from} joined with what {@code to} has. */
    abstract void into(float[] to, int at, float[] from, int first, int n);
}
