package dev.octet.trainer.kernel;

/** The functions of {@link VectorMath}, documented there. */
interface ElementaryFunctions {
    void exp(float[] x, int from, float[] y, int to, int n);

    float expOfDifference(float[] x, int from, float shift, float[] y, int to, int n);

    void log(float[] x, int from, float[] y, int to, int n);

    void tanh(float[] x, int from, float[] y, int to, int n);

    void erf(float[] x, int from, float[] y, int to, int n);

    void sigmoid(float[] x, int from, float[] y, int to, int n);

    void softplus(float[] x, int from, float[] y, int to, int n);

    void select(float[] mask, float[] a, float[] b, float[] y, int n);

    void add(float[] from, int first, float[] to, int at, int n);

    float sum(float[] x, int from, int n);

    float max(float[] x, int from, int n);

    float dot(float[] a, int fromA, float[] b, int fromB, int n);
}
