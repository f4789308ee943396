#pragma once

#include "compiler/kernels/kernel.h"

/// The kernels that come with Kodama, each made in its own file; kernels() starts with these.
namespace kodama::compiler {

Kernel contract_mau_kernel();      ///< contract_kernel.cpp: "contract-mau"
Kernel contract_rows_kernel();     ///< rows_kernel.cpp: "contract-rows"
Kernel matmul_rows_kernel();       ///< rows_matmul_kernel.cpp: "matmul-rows"
Kernel contract_columns_kernel();  ///< columns_kernel.cpp: "contract-columns"
Kernel sum_pictures_kernel();      ///< picture_sums_kernel.cpp: "sum-pictures"
Kernel depthwise_rows_kernel();    ///< rows_depthwise_kernel.cpp: "depthwise-rows"
Kernel reduce_rows_kernel();       ///< rows_pool_kernel.cpp: "reduce-rows"
Kernel map_rows_kernel();          ///< rows_map_kernel.cpp: "map-rows"
Kernel normalize_rows_kernel();    ///< rows_map_kernel.cpp: "normalize-rows"
Kernel gather_kernel();            ///< gather_kernel.cpp: "gather-tables"
Kernel map_kernel();               ///< map_kernel.cpp
Kernel reduce_kernel();            ///< reduce_kernel.cpp
Kernel reduce_shared_kernel();     ///< reduce_shared_kernel.cpp: "reduce-shared"

}  // namespace kodama::compiler
