package dev.octet.trainer.kernel;

/**
 * Constants of the elementary functions. The polynomials were fitted by weighted least squares to minimise the largest relative error,
 * which is given with each. The range reductions are the usual ones (Cody and Waite, Software Manual for the Elementary Functions, 1980).
 */
@SuppressWarnings("FloatingPointLiteralPrecision") // nine digits identify a float uniquely
final class FunctionConstants {
    /** Adding 1.5·2^23 rounds to an integer, which is then in the lowest bits. */
    static final float ROUNDER = 12582912f;

    static final int ROUNDER_BITS = 0x4B400000;
    static final float LOG2_E = 1.44269504f;

    /** ln 2 = LN2_HIGH + LN2_LOW; LN2_HIGH has 9 bits, so its products with exponents are exact. */
    static final float LN2_HIGH = 0.693359375f;

    static final float LN2_LOW = -2.12194440e-4f;

    /** e^x is infinite above this limit, and 0 below {@link #EXP_LOWEST}. */
    static final float EXP_HIGHEST = 89f;

    static final float EXP_LOWEST = -104f;

    /** (e^r - 1 - r) / r² for |r| <= ln(2)/2, from r⁰ on: 3.3e-9. */
    static final float EXP_0 = 4.99999940e-01f;

    static final float EXP_1 = 1.66665152e-01f;
    static final float EXP_2 = 4.16684560e-02f;
    static final float EXP_3 = 8.36941879e-03f;
    static final float EXP_4 = 1.38131448e-03f;

    /** Bits of sqrt(1/2), the lower end of the reduced range of the logarithm. */
    static final int SQRT_HALF_BITS = 0x3F3504F3;

    static final float SMALLEST_NORMAL = Float.MIN_NORMAL;
    static final float TWO_23 = 8388608f;

    /** (log(1 + f) - f + f²/2) / f³ for sqrt(1/2) <= 1 + f < sqrt(2), from f⁰ on: 6e-9. */
    static final float LOG_0 = 3.33333313e-01f;

    static final float LOG_1 = -2.50008374e-01f;
    static final float LOG_2 = 2.00012922e-01f;
    static final float LOG_3 = -1.66227654e-01f;
    static final float LOG_4 = 1.41996950e-01f;
    static final float LOG_5 = -1.31641865e-01f;
    static final float LOG_6 = 1.27791151e-01f;
    static final float LOG_7 = -7.64610469e-02f;

    /** tanh is a polynomial below this magnitude, and computed from e^2x above. */
    static final float TANH_SMALL = 0.625f;

    /** (tanh x - x) / x³ in x²: 4.4e-9. */
    static final float TANH_0 = -3.33332807e-01f;

    static final float TANH_1 = 1.33314416e-01f;
    static final float TANH_2 = -5.37397154e-02f;
    static final float TANH_3 = 2.06390880e-02f;
    static final float TANH_4 = -5.70498779e-03f;

    /** erf is a polynomial below this magnitude, 1 - e^-q(x) above, and 1 from {@link #ERF_ONE} on. */
    static final float ERF_SMALL = 1f;

    static final float ERF_ONE = 4f;

    /** (erf x - x) / x in x²: 1.2e-9. */
    static final float ERF_0 = 1.28379166e-01f;

    static final float ERF_1 = -3.76126260e-01f;
    static final float ERF_2 = 1.12835854e-01f;
    static final float ERF_3 = -2.68538129e-02f;
    static final float ERF_4 = 5.18832915e-03f;
    static final float ERF_5 = -8.01020360e-04f;
    static final float ERF_6 = 7.85389202e-05f;

    /** -log(1 - erf x) - x for 1 <= x <= 4, from x⁰ on: 1.1e-9 of erf. */
    static final float ERFC_0 = 3.41522944e-04f;

    static final float ERFC_1 = 1.27089188e-01f;
    static final float ERFC_2 = 6.38144851e-01f;
    static final float ERFC_3 = 1.03106752e-01f;
    static final float ERFC_4 = -2.18380652e-02f;
    static final float ERFC_5 = 2.94765830e-03f;
    static final float ERFC_6 = -1.86379199e-04f;

    /** (log(1 + u) - 2s) / s³ in s² with s = u / (2 + u) for 0 <= u <= 1: 1.1e-10. */
    static final float LOG1P_0 = 6.66666746e-01f;

    static final float LOG1P_1 = 3.99988890e-01f;
    static final float LOG1P_2 = 2.86165953e-01f;
    static final float LOG1P_3 = 2.14307413e-01f;
    static final float LOG1P_4 = 2.42895558e-01f;

    private FunctionConstants() {}
}
