package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.LtAttribute.Kind;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** The contract with cublasLt, as far as it shows without a GPU: numbers of its header, and attributes that the library itself gives back. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CublasLtTest {
    /** cublasLt.h of CUDA 12.6 and 13.1. */
    private static final Map<String, String> HEADER = Stream.of(
                    "TRANSA 3 4",
                    "TRANSB 4 4",
                    "EPILOGUE 7 4",
                    "BIAS_POINTER 8 8",
                    "BIAS_BATCH_STRIDE 10 8",
                    "A_SCALE_POINTER 17 8",
                    "B_SCALE_POINTER 18 8",
                    "FAST_ACCUM 25 1",
                    "BIAS_DATA_TYPE 26 4",
                    "A_SCALE_MODE 31 4",
                    "B_SCALE_MODE 32 4",
                    "BATCH_COUNT 5 4",
                    "STRIDED_BATCH_OFFSET 6 8",
                    "MAX_WORKSPACE_BYTES 1 8",
                    "REDUCTION_SCHEME_MASK 3 4",
                    "MIN_ALIGNMENT_A_BYTES 5 4",
                    "MIN_ALIGNMENT_B_BYTES 6 4",
                    "MIN_ALIGNMENT_C_BYTES 7 4",
                    "MIN_ALIGNMENT_D_BYTES 8 4")
            .map(l -> l.split(" ", 2))
            .collect(Collectors.toMap(w -> w[0], w -> w[1]));

    private static CublasLt library() {
        return CublasLt.of(Installed.library(CudaLibrary.CUBLAS_LT));
    }

    @Test
    void attributes_have_the_numbers_and_sizes_of_the_header() {
        for (LtAttribute a : LtAttribute.values()) {
            assertEquals(HEADER.get(a.name()), a.number() + " " + a.bytes(), a.name());
        }
        assertEquals(HEADER.size(), LtAttribute.values().length);
        assertEquals(96, CublasLt.RESULT_BYTES);
        assertEquals(64, CublasLt.ALGORITHM_BYTES);
    }

    @Test
    void element_types_have_the_numbers_of_the_header() {
        assertEquals(0, LtAttribute.dataType(DType.F32));
        assertEquals(2, LtAttribute.dataType(DType.F16));
        assertEquals(14, LtAttribute.dataType(DType.BF16));
        assertEquals(28, LtAttribute.dataType(DType.F8_E4M3FN));
        assertEquals(29, LtAttribute.dataType(DType.F8_E5M2));
        assertThrows(IllegalArgumentException.class, () -> LtAttribute.dataType(DType.I64));
    }

    @Test
    void the_library_gives_back_every_attribute_that_was_set() {
        CublasLt lt = library();
        long product = lt.createProduct(LtAttribute.COMPUTE_32F);
        long layout = lt.createLayout(DType.BF16, 64, 32, 64);
        long preference = lt.createPreference();
        for (LtAttribute a : LtAttribute.values()) {
            boolean modes = a == LtAttribute.A_SCALE_MODE || a == LtAttribute.B_SCALE_MODE;
            if (modes && lt.version() < LtAttribute.SCALE_MODES_SINCE) {
                continue;
            }
            long object = switch (a.kind()) {
                case PRODUCT -> product;
                case LAYOUT -> layout;
                case PREFERENCE -> preference;
            };
            long value = switch (a) {
                case TRANSA, TRANSB -> LtAttribute.OP_T;
                case EPILOGUE -> LtAttribute.EPILOGUE_BIAS;
                case FAST_ACCUM -> 1;
                case BIAS_DATA_TYPE -> LtAttribute.dataType(DType.BF16);
                case A_SCALE_MODE, B_SCALE_MODE -> 0;
                case REDUCTION_SCHEME_MASK -> LtAttribute.REDUCTION_COMPUTE_TYPE;
                case MIN_ALIGNMENT_A_BYTES, MIN_ALIGNMENT_B_BYTES, MIN_ALIGNMENT_C_BYTES, MIN_ALIGNMENT_D_BYTES -> 16;
                case BATCH_COUNT -> 7;
                default -> 0x12340000;
            };
            lt.set(object, a, value);
            assertEquals(value, lt.get(object, a), a.name());
        }
        lt.free(Kind.PRODUCT, product);
        lt.free(Kind.LAYOUT, layout);
        lt.free(Kind.PREFERENCE, preference);
    }

    @Test
    void a_row_major_product_is_told_with_its_operands_changed() {
        CublasLt lt = library();
        // d [6, 10] = a [6, 4] · b [4, 10]; a lies as [4, 6] with rows 8 apart, b as it is
        CudaProduct p = CudaProduct.of(
                        true,
                        false,
                        6,
                        10,
                        4,
                        new Matrix(256, DType.BF16, 8, 32),
                        new Matrix(512, DType.BF16, 10, 40),
                        new Matrix(1024, DType.F32, 12, 72))
                .batched(3)
                .withBias(2048, DType.F32);
        try (ProductDescription d = new ProductDescription(lt, p, false)) {
            CublasLt.Descriptors of = d.descriptors();
            assertEquals(LtAttribute.OP_N, lt.get(of.product(), LtAttribute.TRANSA));
            assertEquals(LtAttribute.OP_T, lt.get(of.product(), LtAttribute.TRANSB));
            assertEquals(2048, lt.get(of.product(), LtAttribute.BIAS_POINTER));
            assertEquals(0, lt.get(of.product(), LtAttribute.BIAS_DATA_TYPE));
            assertEquals(40, lt.get(of.a(), LtAttribute.STRIDED_BATCH_OFFSET));
            assertEquals(32, lt.get(of.b(), LtAttribute.STRIDED_BATCH_OFFSET));
            assertEquals(72, lt.get(of.d(), LtAttribute.STRIDED_BATCH_OFFSET));
            assertEquals(3, lt.get(of.d(), LtAttribute.BATCH_COUNT));
        }
    }

    @Test
    void scales_change_places_with_their_operands() {
        CublasLt lt = library();
        try (ProductDescription d = new ProductDescription(lt, fp8().scaled(4096, 4100, true), false)) {
            long product = d.descriptors().product();
            assertEquals(4100, lt.get(product, LtAttribute.A_SCALE_POINTER));
            assertEquals(4096, lt.get(product, LtAttribute.B_SCALE_POINTER));
            assertEquals(1, lt.get(product, LtAttribute.FAST_ACCUM));
            assertEquals(LtAttribute.OP_T, lt.get(product, LtAttribute.TRANSA));
            assertEquals(LtAttribute.OP_N, lt.get(product, LtAttribute.TRANSB));
        }
    }

    private static CudaProduct fp8() {
        return CudaProduct.of(
                false,
                true,
                17,
                16,
                32,
                Matrix.of(256, DType.F8_E4M3FN, 32),
                Matrix.of(512, DType.F8_E5M2, 32),
                Matrix.of(1024, DType.BF16, 16));
    }

    private static Optional<String> broken(CudaProduct p) {
        return ProductRules.broken(p, 90);
    }

    @Test
    void the_rules_of_fp8_are_checked_before_the_library_is_asked() {
        assertEquals(Optional.empty(), broken(fp8()));
        assertEquals(
                Optional.of("FP8 products need compute capability 8.9, this GPU has 8.6"),
                ProductRules.broken(fp8(), 86));
        Matrix a = fp8().a();
        Matrix b = fp8().b();
        Matrix d = fp8().d();
        assertEquals(
                Optional.of("of FP8 operands the first is not transposed and the second is"),
                broken(CudaProduct.of(false, false, 17, 16, 32, a, b, d)));
        assertEquals(
                Optional.of("k is a multiple of 16 in FP8"), broken(CudaProduct.of(false, true, 17, 16, 24, a, b, d)));
        assertEquals(
                Optional.of("a row of the result is a multiple of 16 bytes in FP8"),
                broken(CudaProduct.of(false, true, 17, 12, 32, a, b, d)));
        assertEquals(
                Optional.of("one operand at least is E4M3"), broken(CudaProduct.of(false, true, 17, 16, 32, b, b, d)));
        assertEquals(
                Optional.of("matrices of FP8 products are aligned to 16 bytes"),
                broken(CudaProduct.of(false, true, 17, 16, 32, Matrix.of(264, DType.F8_E4M3FN, 32), b, d)));
        assertEquals(
                Optional.of("leading dimensions of FP8 products are multiples of 16 bytes"),
                broken(CudaProduct.of(false, true, 17, 16, 32, Matrix.of(256, DType.F8_E4M3FN, 40), b, d)));
        assertEquals(
                Optional.of("the bias of an FP8 product is F16 for results in F16, BF16 otherwise"),
                broken(fp8().withBias(2048, DType.F32)));
        assertEquals(
                Optional.of("both operands are FP8, or none"),
                broken(CudaProduct.of(false, true, 17, 16, 32, a, Matrix.of(512, DType.BF16, 32), d)));
    }

    @Test
    void the_rules_of_wider_types_are_checked_too() {
        Matrix a = Matrix.of(256, DType.BF16, 5);
        Matrix b = Matrix.of(512, DType.BF16, 7);
        Matrix d = Matrix.of(1024, DType.BF16, 7);
        assertEquals(Optional.empty(), broken(CudaProduct.of(false, false, 3, 7, 5, a, b, d)));
        assertEquals(
                Optional.of("rows of b do not overlap"),
                broken(CudaProduct.of(false, false, 3, 7, 5, a, Matrix.of(512, DType.BF16, 6), d)));
        assertEquals(
                Optional.of("the result has the operands' type or is F32"),
                broken(CudaProduct.of(false, false, 3, 7, 5, a, b, Matrix.of(1024, DType.F16, 7))));
        assertEquals(
                Optional.of("the results of a batch do not overlap"),
                broken(CudaProduct.of(false, false, 3, 7, 5, a, b, d).batched(2)));
        assertEquals(
                Optional.of("matrices are aligned to their elements"),
                broken(CudaProduct.of(false, false, 3, 7, 5, Matrix.of(257, DType.BF16, 5), b, d)));
        assertEquals(
                Optional.of("only FP8 operands have scales"),
                broken(CudaProduct.of(false, false, 3, 7, 5, a, b, d).scaled(4096, 0, false)));
    }

    @Test
    void a_key_has_all_that_decides_on_an_algorithm() {
        assertEquals(
                "e4m3*e5m2>bf16 NT 17x16x32 leading 32,32,16 aligned 256,256,256 fast scaled",
                Products.key(fp8().scaled(4096, 4100, true), true));
        // a first micro-batch writes what others add to: both with one algorithm, so that their sums have one order
        assertEquals(
                Products.key(fp8().scaled(4096, 4100, true), true),
                Products.key(fp8().scaled(4096, 4100, true).accumulating(true), true));
        CudaProduct wide = CudaProduct.of(
                        false,
                        false,
                        3,
                        7,
                        5,
                        new Matrix(260, DType.F32, 5, 15),
                        new Matrix(512, DType.F32, 7, 0),
                        new Matrix(1024, DType.F32, 7, 21))
                .batched(2);
        assertEquals(
                "f32*f32>f32 NN 3x7x5 leading 5,7,7 batch 2 strides 15,0,21 aligned 4,256,4 tf32",
                Products.key(wide, true));
    }

    @Test
    void a_library_without_its_functions_is_refused() {
        LoadedLibrary other =
                new LoadedLibrary(CudaLibrary.CUBLAS_LT, "somewhere/libcublasLt.so.13", 13, name -> Optional.empty());
        UnavailableException e = assertThrows(UnavailableException.class, () -> CublasLt.of(other));
        assertTrue(e.what().startsWith("libcublasLt.so.13 has no function cublasLtGetVersion"), e.what());
    }
}
