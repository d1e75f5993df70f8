package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.AttentionPlans.Answer;
import dev.octet.trainer.device.cuda.AttentionPlans.Plan;
import dev.octet.trainer.device.cuda.AttentionPlans.Refusal;
import dev.octet.trainer.device.cuda.CudnnAttribute.Kind;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Gradients;
import dev.octet.trainer.kernel.CudaAttention.Rows;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** The binding of cuDNN and its plans, against an interface of the same functions on this processor that checks how it is called. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudnnTest {
    /** cudnn_graph.h of cuDNN 9.24: number and type. */
    private static final Map<String, String> HEADER = Stream.of(
                    "POINTWISE_MODE 0 14",
                    "POINTWISE_MATH_PREC 1 1",
                    "POINTWISE_AXIS 9 3",
                    "ENGINEHEUR_MODE 200 8",
                    "ENGINEHEUR_OPERATION_GRAPH 201 15",
                    "ENGINEHEUR_RESULTS 202 15",
                    "ENGINEHEUR_DEVICEPROP 204 15",
                    "ENGINECFG_ENGINE 300 15",
                    "EXECUTION_PLAN_ENGINE_CONFIG 401 15",
                    "EXECUTION_PLAN_WORKSPACE_SIZE 402 3",
                    "OPERATION_POINTWISE_PW_DESCRIPTOR 750 15",
                    "OPERATION_POINTWISE_XDESC 751 15",
                    "OPERATION_POINTWISE_BDESC 752 15",
                    "OPERATION_POINTWISE_YDESC 753 15",
                    "OPERATION_POINTWISE_TDESC 758 15",
                    "OPERATIONGRAPH_HANDLE 800 0",
                    "OPERATIONGRAPH_OPS 801 15",
                    "TENSOR_BYTE_ALIGNMENT 900 3",
                    "TENSOR_DATA_TYPE 901 1",
                    "TENSOR_DIMENSIONS 902 3",
                    "TENSOR_STRIDES 903 3",
                    "TENSOR_UNIQUE_ID 906 3",
                    "TENSOR_IS_VIRTUAL 907 2",
                    "TENSOR_IS_BY_VALUE 908 2",
                    "VARIANT_PACK_UNIQUE_IDS 1000 3",
                    "VARIANT_PACK_DATA_POINTERS 1001 6",
                    "VARIANT_PACK_WORKSPACE 1003 6",
                    "ENGINE_GLOBAL_INDEX 1301 3",
                    "ENGINE_NUMERICAL_NOTE 1303 11",
                    "MATMUL_COMP_TYPE 1500 1",
                    "OPERATION_MATMUL_ADESC 1520 15",
                    "OPERATION_MATMUL_BDESC 1521 15",
                    "OPERATION_MATMUL_CDESC 1522 15",
                    "OPERATION_MATMUL_DESC 1523 15",
                    "REDUCTION_OPERATOR 1600 18",
                    "REDUCTION_COMP_TYPE 1601 1",
                    "OPERATION_REDUCTION_XDESC 1610 15",
                    "OPERATION_REDUCTION_YDESC 1611 15",
                    "OPERATION_REDUCTION_DESC 1612 15",
                    "OPERATION_RESHAPE_XDESC 2200 15",
                    "OPERATION_RESHAPE_YDESC 2201 15",
                    "DEVICEPROP_JSON_REPRESENTATION 2702 24")
            .map(l -> l.split(" ", 2))
            .collect(Collectors.toMap(w -> w[0], w -> w[1]));

    private static HostCompiler compiler() {
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        return HostCompiler.find().orElseThrow();
    }

    /** Heads side by side, of 64 elements in BF16. */
    static CudaAttention forward(int batch, int heads, int keyHeads, int length) {
        return new CudaAttention(
                DType.BF16,
                new Shape(batch, heads, keyHeads, length, length, 64),
                true,
                0.125f,
                rows(heads, length),
                rows(keyHeads, length),
                rows(keyHeads, length),
                rows(heads, length),
                256,
                0,
                null);
    }

    private static Rows rows(int heads, int length) {
        return new Rows(256, 64L * heads * length, 64, 64L * heads);
    }

    private static CudaAttention backward(CudaAttention a) {
        return a.backward(new Gradients(a.y(), a.q(), a.k(), a.v()));
    }

    @Test
    void attributes_have_the_numbers_and_types_of_the_header() {
        for (CudnnAttribute a : CudnnAttribute.values()) {
            assertEquals(HEADER.get(a.name()), a.number() + " " + a.type().number(), a.name());
        }
        assertEquals(HEADER.size(), CudnnAttribute.values().length);
    }

    @Test
    void a_library_without_its_functions_is_refused() {
        LoadedLibrary other =
                new LoadedLibrary(CudaLibrary.CUDNN, "somewhere/libcudnn.so.9", 9, name -> Optional.empty());
        UnavailableException e = assertThrows(UnavailableException.class, () -> Cudnn.of(other));
        assertTrue(e.what().startsWith("libcudnn.so.9 has no function cudnnGetVersion"), e.what());
    }

    @Test
    void an_older_library_is_refused() {
        UnavailableException e = assertThrows(UnavailableException.class, () -> HostCudnn.older(compiler()));
        assertEquals("cuDNN 9.15.0 is too old: Octet needs 9.16 for attention", e.what());
    }

    @Test
    void what_the_library_reports_is_told_with_its_reason() {
        Cudnn cudnn = HostCudnn.of(compiler());
        long tensor = cudnn.create(Kind.TENSOR);
        UnavailableException e = assertThrows(UnavailableException.class, () -> cudnn.finish(tensor, "a tensor"));
        assertEquals(
                "cudnnBackendFinalize of a tensor failed: CUDNN_STATUS_BAD_PARAM (2000): attribute 900 is missing",
                e.what());
        assertTrue(e.where().endsWith(", version 9.24.0"), e.where());
        cudnn.free(tensor);
    }

    @Test
    void a_proposal_whose_bits_differ_each_time_is_passed_over() {
        try (AttentionPlans plans = HostCudnn.plans(compiler())) {
            Plan plan = assertInstanceOf(Plan.class, plans.of(backward(forward(1, 2, 2, 16))));
            assertEquals(6, plan.engine());
        }
    }

    @Test
    void a_plan_is_made_once_for_a_shape_wherever_it_lies() {
        try (AttentionPlans plans = HostCudnn.plans(compiler())) {
            CudaAttention a = forward(1, 2, 2, 16);
            Rows q = a.q();
            CudaAttention elsewhere = new CudaAttention(
                    a.type(),
                    a.shape(),
                    a.causal(),
                    a.scale(),
                    new Rows(4096, q.batch(), q.head(), q.row()),
                    a.k(),
                    a.v(),
                    a.y(),
                    8192,
                    0,
                    null);
            Answer first = plans.of(a);
            assertSame(first, plans.of(elsewhere));
        }
    }

    @Test
    void the_workspace_holds_the_plans_own_and_a_number_for_each_query() {
        try (AttentionPlans plans = HostCudnn.plans(compiler())) {
            // 1000 and 4 * 3 * 2 * 16 bytes, each rounded up to 256
            assertEquals(OptionalLong.of(1024), plans.workspaceBytes(forward(3, 2, 2, 16)));
            assertEquals(OptionalLong.of(1024 + 512), plans.workspaceBytes(backward(forward(3, 2, 2, 16))));
        }
    }

    @Test
    void a_shape_that_the_library_refuses_has_its_reason() {
        try (AttentionPlans plans = HostCudnn.plans(compiler())) {
            Refusal refusal = assertInstanceOf(Refusal.class, plans.of(forward(1, 2, 2, 13)));
            assertTrue(refusal.reason().endsWith("CUDNN_STATUS_NOT_SUPPORTED (3000): 13 queries"), refusal.reason());
            assertEquals(OptionalLong.empty(), plans.workspaceBytes(forward(1, 2, 2, 13)));
        }
    }

    @Test
    void rows_that_are_not_aligned_are_not_asked_for() {
        CudaAttention a = forward(1, 2, 2, 16);
        CudaAttention odd = new CudaAttention(
                a.type(),
                a.shape(),
                a.causal(),
                a.scale(),
                new Rows(256, 2048, 64, 132),
                a.k(),
                a.v(),
                a.y(),
                a.logSums(),
                0,
                null);
        try (AttentionPlans plans = HostCudnn.plans(compiler())) {
            assertEquals(new Refusal("rows are not multiples of 16 bytes"), plans.of(odd));
        }
    }

    @Test
    void gradients_are_the_librarys_on_hopper_alone() {
        try (AttentionPlans plans = HostCudnn.plans(compiler(), 100)) {
            assertInstanceOf(Plan.class, plans.of(forward(1, 2, 2, 16)));
            assertEquals(
                    new Refusal("gradients in the same bits every time are known of compute capability 9.0 alone"),
                    plans.of(backward(forward(1, 2, 2, 16))));
        }
    }

    @Test
    void names_say_direction_type_and_shape() {
        assertEquals(
                "attention forward bf16 3x4:2x16x16x64 causal",
                forward(3, 4, 2, 16).name());
        assertEquals(
                "attention backward bf16 3x4x16x16x64 causal",
                backward(forward(3, 4, 4, 16)).name());
    }
}
