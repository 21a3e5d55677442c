package mask_test
import ("testing";"fmt";"strings";"mcp-aggregator/internal/mask")
func TestP(t *testing.T){ for _,s:=range mask.Sets(){ if s.Name=="all"||s.Name=="default"{fmt.Println("##",s.Name,len(s.Kinds));continue}; fmt.Printf("| `%s` | %s |\n",s.Name,strings.Join(s.Kinds,", "))}}
